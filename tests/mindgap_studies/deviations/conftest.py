"""The published data, where they are beside the repository."""

from pathlib import Path

import pytest

from mindgap_studies.deviations.published import PublishedStudy, published_study


@pytest.fixture(scope="session")
def published() -> Path:
    for folder in Path(__file__).resolve().parents:
        if (folder / "shared" / "published" / "deviations").is_dir():
            return folder / "shared" / "published" / "deviations"
    pytest.skip("../shared/published/deviations is not here")


@pytest.fixture(scope="session")
def study(published: Path) -> PublishedStudy:
    return published_study(published)
