"""Datasets of every kind, and what is said of bad ones."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from mindgap.graph import MindgapError
from mindgap.source_worker.preprocessing import Preprocessing, preprocessing_of
from mindgap_studies.task_runs.dataset_client import DatasetClient, DatasetFacts
from mindgap_studies.task_runs.datasets import Dataset, EndOfDataset, open_dataset, read_example
from mindgap_studies.task_runs.images import InputForm, Pixels, UnreadableExample, picture_of

FORMS = [InputForm("images", (1, 4, 4), "float32")]
PLAIN = Pixels()


def image(path: Path, value: int, mode: str = "L") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (8, 8), value if mode == "L" else (value, 0, 0)).save(path)


def test_arrays_are_found_by_name_or_order(tmp_path: Path) -> None:
    images = np.arange(48, dtype=np.float64).reshape(3, 1, 4, 4)
    np.savez(tmp_path / "named.npz", images=images, other=np.zeros(3), labels=np.array([2, 0, 1]))
    np.savez(tmp_path / "ordered.npz", x=images, labels=np.array([2, 0, 1]))
    for name in ("named", "ordered"):
        found = open_dataset(str(tmp_path / f"{name}.npz"), FORMS, PLAIN)
        assert (found.task, found.count) == ("classification", 3)
        example = found.example(1)
        assert example.labels == (0,) and np.array_equal(example.inputs[0], images[1])
        assert example.inputs[0].dtype == np.float32
        with pytest.raises(IndexError):
            found.example(3)


def test_boxes_and_tokens_make_other_tasks(tmp_path: Path) -> None:
    images, boxes = np.zeros((2, 1, 4, 4)), np.arange(16.0).reshape(2, 2, 4)
    np.savez(tmp_path / "d.npz", images=images, boxes=boxes, box_labels=np.array([[3, -1], [1, 2]]))
    found = open_dataset(str(tmp_path / "d.npz"), FORMS, PLAIN)
    assert found.task == "detection" and found.example(0).labels == (3,)
    assert found.example(0).boxes == (0, 1, 2, 3) and len(found.example(1).boxes) == 8
    np.savez(tmp_path / "l.npz", images=images, boxes=boxes[:, 0], labels=np.array([3, 1]))
    found = open_dataset(str(tmp_path / "l.npz"), FORMS, PLAIN)
    assert found.task == "localisation" and found.example(1).boxes == (8, 9, 10, 11)
    np.savez(tmp_path / "t.npz", tokens=np.array([[5, 6, 7], [8, 9, 5]]))
    found = open_dataset(str(tmp_path / "t.npz"), [InputForm("tokens", (2,), "int64")], PLAIN)
    assert found.task == "language" and found.example(1).inputs[0].tolist() == [8, 9]
    assert found.example(1).labels == (9, 5)


def test_a_folder_of_images_is_scaled_and_normalised(tmp_path: Path) -> None:
    image(tmp_path / "cat" / "b.png", 255)
    image(tmp_path / "cat" / "a.png", 51)
    image(tmp_path / "dog" / "deep" / "c.jpg", 255, "RGB")
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    (tmp_path / "dog" / "z.png").write_bytes(b"\x89PNG broken")
    found = open_dataset(str(tmp_path), FORMS, Pixels((0.5,), (0.25,)))
    assert (found.classes, found.count) == (("cat", "dog"), 4)
    assert found.example(0).labels == (0,) and np.allclose(found.example(0).inputs[0], (0.2 - 0.5) / 0.25)
    assert found.example(2).labels == (1,) and found.example(2).inputs[0].shape == (1, 4, 4)
    with pytest.raises(UnreadableExample, match=r"z\.png cannot be read"):
        found.example(3)
    whole = open_dataset(str(tmp_path), [InputForm("x", (3, 8, 8), "uint8")], PLAIN)
    assert whole.example(2).inputs[0][0].max() > 250 and whole.example(2).inputs[0][1:].max() < 5


def test_images_are_prepared_as_the_models_library_does(tmp_path: Path) -> None:
    tall = np.zeros((40, 20), np.uint8)
    tall[15:25, 5:15] = 200
    for name in ("dog", "cat"):
        (tmp_path / name).mkdir()
        Image.fromarray(tall).save(tmp_path / name / "a.png")
    forms = [InputForm("x", (1, 10, 10), "float32")]
    own = Preprocessing("a file", 0.5, "nearest", (0.1,), (0.2,))
    cut = open_dataset(str(tmp_path), forms, Pixels(own=own)).example(0).inputs[0]
    assert np.allclose(cut, (200 / 255 - 0.1) / 0.2), "the centre of the shorter side of 20, which is not resized"
    assert np.allclose(
        open_dataset(str(tmp_path), forms, Pixels((0.5,), (), own)).example(0).inputs[0], 200 / 255 - 0.5
    )
    stretched = open_dataset(str(tmp_path), forms, PLAIN).example(0).inputs[0]
    assert stretched[0, 0, 0] == 0 and stretched.max() > 0.7
    assert "0.5 of the shorter side, is cut out, mean 0.1, std 0.2" in Pixels(own=own).words


def test_labels_of_folders_are_those_of_the_models_classes(tmp_path: Path) -> None:
    image(tmp_path / "dog" / "a.png", 1)
    image(tmp_path / "cat" / "a.png", 2)
    found = open_dataset(str(tmp_path), FORMS, PLAIN, ["ant", "cat", "cow", "dog"])
    assert (found.classes[1], [found.example(n).labels for n in (0, 1)]) == ("cat", [(1,), (3,)])
    with pytest.raises(MindgapError, match="the folder dog is none of the classes"):
        open_dataset(str(tmp_path), FORMS, PLAIN, ["ant", "cat"])
    with pytest.raises(MindgapError, match="--classes gives the folders"):
        open_dataset(str(tmp_path / "a.npz"), FORMS, PLAIN, ["ant", "cat"])


def test_the_preprocessing_of_libraries_is_read(tmp_path: Path) -> None:
    timms = {"mean": (0.5,), "std": (0.25,), "crop_pct": 0.875, "interpolation": "bicubic", "crop_mode": "center"}
    found = preprocessing_of(SimpleNamespace(pretrained_cfg=timms))
    assert found == Preprocessing("timm's configuration of the model", 0.875, "bicubic", (0.5,), (0.25,))
    model = SimpleNamespace(config=SimpleNamespace(_name_or_path=str(tmp_path)))
    assert preprocessing_of(model) is preprocessing_of(object()) is None
    held = {"size": {"shortest_edge": 256}, "do_center_crop": True, "crop_size": {"height": 224, "width": 224}}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**held, "resample": 3, "image_mean": [0.5] * 3}))
    assert preprocessing_of(model) == Preprocessing("preprocessor_config.json", 0.875, "bicubic", (0.5,) * 3, ())
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"size": 224, "do_normalize": False}))
    assert preprocessing_of(model) == Preprocessing("preprocessor_config.json")


def test_a_callable_is_streamed_from_any_number(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(
        "import numpy as np\n"
        "def five():\n"
        "    for n in range(5):\n"
        "        yield np.full((1, 4, 4) if n != 3 else (2, 2), n, np.float32), n % 2\n"
        "def boxes():\n"
        "    yield np.zeros((1, 4, 4)), {'boxes': [[0, 0, 1, 1]], 'labels': [4]}\n"
        "def fails():\n"
        "    yield np.zeros((1, 4, 4)), 0\n"
        "    raise KeyError('gone')\n"
    )
    found = open_dataset(f"{tmp_path}/data.py:five", FORMS, PLAIN)
    assert found.count is None
    assert [found.example(n).inputs[0][0, 0, 0] for n in (2, 4, 0, 1)] == [2, 4, 0, 1]
    with pytest.raises(UnreadableExample, match=r"it is \[2, 2\], and the model's input images takes \[1, 4, 4\]"):
        found.example(3)
    with pytest.raises(IndexError):
        found.example(5)
    assert open_dataset(f"{tmp_path}/data.py:boxes", FORMS, PLAIN).task == "detection"
    with pytest.raises(MindgapError, match=r"it raised KeyError: 'gone' \(data\.py:9\)"):
        open_dataset(f"{tmp_path}/data.py:fails", FORMS, PLAIN).example(1)


def test_a_saved_hugging_face_dataset_is_read_by_its_library(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    image(tmp_path / "one.png", 255)
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])})
    saved = datasets.Dataset.from_dict({"image": [str(tmp_path / "one.png")] * 2, "label": [1, 0]}, features)
    datasets.DatasetDict({"test": saved}).save_to_disk(tmp_path / "saved")
    found = open_dataset(f"hf:{tmp_path}/saved/test", FORMS, PLAIN)
    assert (found.classes, found.count, found.images) == (("a", "b"), 2, True)
    assert found.example(0).labels == (1,) and (found.example(0).inputs[0] == 1).all()
    with pytest.raises(MindgapError, match=r"it has several splits: name one, as in hf:.*/saved/test"):
        open_dataset(f"hf:{tmp_path}/saved", FORMS, PLAIN)


def test_an_indexed_dataset_of_a_function_is_read_by_number(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(
        "from PIL import Image\n"
        "class Rows:\n"
        "    classes = ['a', 'b']\n"
        "    def __len__(self):\n"
        "        return 3\n"
        "    def __getitem__(self, number):\n"
        "        if number == 0:\n"
        "            raise OSError('broken')\n"
        "        return Image.new('L', (8, 8), 51 * number), number % 2\n"
        "def named():\n"
        "    return [{'images': [[[0.5] * 4] * 4], 'label': 1}, {'label': 0}]\n"
    )
    found = open_dataset(f"{tmp_path}/data.py:Rows", FORMS, Pixels((0.5,), (0.25,)))
    assert (found.count, found.classes, found.images) == (3, ("a", "b"), True)
    assert np.allclose(found.example(2).inputs[0], (0.4 - 0.5) / 0.25) and found.example(1).labels == (1,)
    with pytest.raises(UnreadableExample, match="OSError: broken"):
        read_example(found, 0)
    with pytest.raises(EndOfDataset):
        found.example(3)
    found = open_dataset(f"{tmp_path}/data.py:named", FORMS, PLAIN)
    assert found.example(0).inputs[0].shape == (1, 4, 4)
    with pytest.raises(MindgapError, match="it needs `label`, and `image` or the model's images"):
        found.example(1)


def test_a_torchvision_dataset_is_read(tmp_path: Path) -> None:
    found = open_dataset("torchvision:FakeData?size=3&num_classes=4", [InputForm("x", (3, 16, 16), "float32")], PLAIN)
    assert found.count == 3 and found.example(2).inputs[0].shape == (3, 16, 16)
    with pytest.raises(MindgapError, match=r"torchvision\.datasets has no Fake"):
        open_dataset("torchvision:Fake", FORMS, PLAIN)
    with pytest.raises(MindgapError, match="not found"):
        open_dataset(f"torchvision:MNIST?root={tmp_path}", FORMS, PLAIN)


IMAGES = np.zeros((2, 1, 4, 4))


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"images": IMAGES[:0], "labels": np.zeros(0, np.int64)}, "it is empty"),
        ({"images": IMAGES, "labels": np.array([4, 4])}, r"all of its samples are of one class \(4\)"),
        ({"images": IMAGES, "labels": np.array([0.5, 1.0])}, r"labels is float64\[2\]: give one whole number"),
        ({"images": IMAGES, "labels": np.arange(3)}, "images has 2 samples, and the others 3"),
        ({"images": IMAGES}, "it has no array `labels`"),
        ({"a": IMAGES, "b": IMAGES, "labels": np.arange(2)}, "beside the labels it has a, b; the model takes images"),
        ({"images": IMAGES[:, 0], "labels": np.arange(2)}, r"its samples are \[4, 4\]"),
        ({"tokens": np.zeros((2, 9), np.int64)}, r"give \[texts, 2\]"),
    ],
)
def test_bad_arrays_are_one_line(tmp_path: Path, arrays: dict[str, np.ndarray], says: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(MindgapError, match=says) as error:
        open_dataset(str(tmp_path / "bad.npz"), FORMS, PLAIN)
    assert str(error.value).startswith(f"dataset {tmp_path}/bad.npz: ") and "\n" not in str(error.value)


def test_other_bad_datasets_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    (tmp_path / "empty" / "cat").mkdir(parents=True)
    image(tmp_path / "one" / "cat" / "a.png", 1)
    (tmp_path / "nothing.py").write_text(
        "def none():\n    return []\ndef odd():\n    return [1]\ndef nothing():\n    pass\n"
    )
    for given, says in (
        (tmp_path / "text.npz", "it is no .npz archive"),
        (tmp_path / "absent.npz", "no such file"),
        (tmp_path / "absent", "there is no such folder"),
        (tmp_path / "empty", "it is empty"),
        (tmp_path / "one", r"one class \(cat\)"),
        (f"{tmp_path}/nothing.py:none", "it is empty"),
        (f"{tmp_path}/nothing.py:odd", r"example 0 is a int: yield \(inputs, label\)"),
        (f"{tmp_path}/nothing.py:nothing", "it raised TypeError: 'NoneType' object is not iterable"),
        (f"{tmp_path}/nothing.py:absent", "it has no function 'absent'"),
    ):
        with pytest.raises(MindgapError, match=says):
            open_dataset(str(given), FORMS, PLAIN)
    with pytest.raises(MindgapError, match=r"the model takes x \[5\]: it needs one input \[channels, height, width\]"):
        open_dataset(str(tmp_path / "one"), [InputForm("x", (5,), "float32")], PLAIN)


def test_a_picture_is_a_png_of_the_array() -> None:
    import base64
    import io

    array = np.linspace(-3, 5, 12).reshape(1, 3, 4)
    shown = Image.open(io.BytesIO(base64.b64decode(picture_of(array).partition(",")[2])))
    assert np.array_equal(np.asarray(shown), np.round((array[0] + 3) / 8 * 255))
    colours = np.random.default_rng(0).random((3, 2, 2))
    assert Image.open(io.BytesIO(base64.b64decode(picture_of(colours).partition(",")[2]))).mode == "RGB"
    assert picture_of(np.zeros(5)) == ""


def broken_archive(path: Path) -> None:
    np.savez(path, images=IMAGES, labels=np.arange(2))
    path.write_bytes(path.read_bytes()[:-40])


def one_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, IMAGES)


@pytest.mark.parametrize("write", [broken_archive, one_array])
def test_files_that_are_no_archives_are_one_line(tmp_path: Path, write) -> None:
    write(tmp_path / "bad.npz")
    with pytest.raises(
        MindgapError, match=r"bad\.npz: it is no \.npz archive, or part of it is missing; write it with numpy\.savez"
    ):
        open_dataset(str(tmp_path / "bad.npz"), FORMS, PLAIN)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"boxes": np.zeros((2, 3, 4)), "box_labels": np.zeros((2, 2), np.int64)}, r"boxes is \[2, 3, 4\] and box_lab"),
        ({"boxes": np.zeros((2, 3)), "labels": np.arange(2)}, r"boxes is \[2, 3\]: give \[N, 4\]"),
        ({"labels": np.arange(2), "images": np.float32(1)}, "images is a single value"),
    ],
)
def test_boxes_and_arrays_of_other_shapes_are_refused(tmp_path: Path, arrays: dict[str, np.ndarray], says: str) -> None:
    np.savez(tmp_path / "bad.npz", **{"images": IMAGES, **arrays})
    with pytest.raises(MindgapError, match=says):
        open_dataset(str(tmp_path / "bad.npz"), FORMS, PLAIN)


def test_an_example_that_is_none_is_left_out_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text(
        "import numpy as np\n"
        "X = np.zeros((1, 4, 4))\n"
        "def boxes():\n"
        "    yield X, {'boxes': [[0, 0, 1, 1]], 'labels': [4]}\n"
        "    yield X, {'labels': [4]}\n"
        "    yield X, {'boxes': [[0, 0, 1, 1]], 'labels': [4, 5]}\n"
        "    yield X, {'boxes': [], 'labels': []}\n"
        "def labels():\n"
        "    yield X, 1\n"
        "    yield X, 1.5\n"
        "    yield X, [1, 2]\n"
    )
    found = open_dataset(f"{tmp_path}/data.py:boxes", FORMS, PLAIN)
    for number, says in ((1, "KeyError: 'boxes'"), (2, "it has 2 labels and 4 sides of boxes")):
        with pytest.raises(UnreadableExample, match=says):
            read_example(found, number)
    assert read_example(found, 3).labels == ()
    with pytest.raises(EndOfDataset):
        read_example(found, 4)
    found = open_dataset(f"{tmp_path}/data.py:labels", FORMS, PLAIN)
    for number, says in ((1, r"its label is .*1\.5.*: give a whole number"), (2, "it has 2 labels: give one")):
        with pytest.raises(UnreadableExample, match=says):
            read_example(found, number)


def test_an_index_error_of_a_library_is_no_end(tmp_path: Path) -> None:
    class Inner:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, number: int) -> tuple[np.ndarray, object]:
            return np.zeros((1, 4, 4)), [0, {"annotation": {}}][number]

    found = Dataset("torchvision:VOCDetection", FORMS, PLAIN, Inner)
    assert read_example(found, 0).labels == (0,)
    with pytest.raises(UnreadableExample, match="KeyError: 'boxes'"):
        read_example(found, 1)


@pytest.mark.parametrize("label", [None, "cat"])
def test_a_label_that_is_no_number_is_left_out(label: object) -> None:
    row = np.zeros(2, np.float32)
    found = Dataset("rows", [InputForm("x", (2,), "float32")], PLAIN, lambda: [(row, 1), (row, label)])
    with pytest.raises(UnreadableExample, match=f"its label is .*{label}"):
        read_example(found, 1)


def test_hidden_folders_are_no_classes_and_empty_ones_are_refused(tmp_path: Path) -> None:
    image(tmp_path / "cat" / "a.png", 1)
    image(tmp_path / "dog" / "a.png", 1)
    image(tmp_path / ".ipynb_checkpoints" / "a.png", 1)
    image(tmp_path / "cat" / ".hidden" / "a.png", 1)
    found = open_dataset(str(tmp_path), FORMS, PLAIN)
    assert (found.classes, found.count) == (("cat", "dog"), 2)
    (tmp_path / "cow").mkdir()
    with pytest.raises(MindgapError, match="the folder cow has no image, and counts as a class"):
        open_dataset(str(tmp_path), FORMS, PLAIN)


def test_mean_and_std_are_refused_where_they_do_nothing(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", images=IMAGES, labels=np.arange(2))
    (tmp_path / "data.py").write_text("def f():\n    yield [[[0.0]]], 1\n")
    image(tmp_path / "images" / "cat" / "a.png", 1)
    pixels = Pixels((0.5,))
    for given, forms in (
        (tmp_path / "d.npz", FORMS),
        (f"{tmp_path}/data.py:f", FORMS),
        (tmp_path / "images", [InputForm("x", (1, 4, 4), "uint8")]),
    ):
        with pytest.raises(MindgapError, match="--mean and --std are for"):
            open_dataset(str(given), forms, pixels)


def test_nothing_is_downloaded() -> None:
    with pytest.raises(MindgapError, match="nothing is downloaded: leave out download=true"):
        open_dataset("torchvision:MNIST?root=absent&download=true", FORMS, PLAIN)


def test_an_image_above_pillows_limit_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image(tmp_path / "cat" / "a.png", 1)
    image(tmp_path / "dog" / "a.png", 1)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 16)
    with pytest.raises(UnreadableExample, match=r"a\.png cannot be read: Image size"):
        read_example(open_dataset(str(tmp_path), FORMS, PLAIN), 0)


def test_what_is_passed_of_a_stream_has_time_of_its_own(tmp_path: Path) -> None:
    asked: list[tuple[int, float]] = []
    reader = object.__new__(DatasetClient)
    reader.facts, reader._passed, reader._deadline_s = DatasetFacts("classification", None, ()), 0, 60.0
    reader._client = SimpleNamespace(process=SimpleNamespace(alive=True))

    def ask(header, deadline_s: float) -> SimpleNamespace:
        asked.append((header["start"], deadline_s))
        return SimpleNamespace(header={"facts": [], "ended": False}, arrays=())

    reader._ask = ask
    for start in (10, 14, 0, 8):
        reader.read(start, 4)
    assert asked == [(10, 210.0), (14, 60.0), (0, 60.0), (8, 120.0)]
