// The index of findings: filters and a search over findings.json, which is made of the facts (tools/findings/pages.py).
(async () => {
  const root = document.getElementById("findings-index");
  const { totals, natures, causes } = await (await fetch(root.dataset.from)).json();
  const FILTERS = {
    runtime: (c) => [c.runtime], severity: (c) => [c.severity], condition: (c) => [c.nature], stage: (c) => [c.stage],
    gets: (c) => [c.damage], dtype: (c) => c.dtypes, "ran on": (c) => [c.device], upstream: (c) => [c.upstream],
  };
  const FIRST = 40;  // rows, until the button
  const ORDERED = { severity: ["critical", "high", "medium", "low"], condition: Object.keys(natures) };
  const made = (tag, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  };

  const STYLE = `
    #findings-index form { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); gap: .4rem; }
    #findings-index label { display: block; font-size: .6rem; color: var(--md-default-fg-color--light); }
    #findings-index select, #findings-index input { width: 100%; padding: .25rem; font: inherit; font-size: .7rem; border-radius: .1rem;
      color: var(--md-default-fg-color); background: var(--md-default-bg-color); border: 1px solid var(--md-default-fg-color--lighter); }
    #findings-index .search { grid-column: 1 / -1; }
    #findings-index h3 { margin: 1rem 0 .2rem; font-size: .8rem; }
    #findings-index h3 small { font-weight: normal; color: var(--md-default-fg-color--light); }
    #findings-index ul { list-style: none; margin: 0; padding: 0; }
    #findings-index li { margin: 0; padding: .35rem 0; border-top: 1px solid var(--md-default-fg-color--lightest); overflow-wrap: anywhere; }
    #findings-index li div { font-size: .62rem; color: var(--md-default-fg-color--light); }
    #findings-index .count { font-size: .7rem; margin: .6rem 0 0; }`;

  const inCode = (text) => text.split("`").map((part, i) => (i % 2 ? made("code", {}, part) : part));
  const met = (c) => c.zoo === null ? "not counted"
    : [[c.zoo, "zoo models"], [c.everyday, "everyday programs"]]
      .map(([count, of]) => `${c.bound && count ? "at most " : ""}${count.toLocaleString("en")} ${of}`).join(", ");
  const row = (c) => made("li", {},
    made("a", { href: c.page }, ...inCode(c.title)),
    made("div", {}, [c.runtime, c.device !== "processor" && c.device, c.stage, c.dtypes.join(", "), met(c)].filter(Boolean).join(" · ") + " · upstream: ",
      c.link ? made("a", { href: c.link }, c.upstream) : c.upstream));

  const fields = {};
  const form = made("form", { onsubmit: (event) => event.preventDefault() });
  const search = made("input", { type: "search", placeholder: "title, condition or function", ariaLabel: "search" });
  form.append(made("label", { className: "search" }, "search", search));
  for (const [name, of] of Object.entries(FILTERS)) {
    const values = ORDERED[name] ?? [...new Set(causes.flatMap(of))].sort();
    fields[name] = made("select", {}, new Option("all", ""), ...values.map((value) => new Option(value, value)));
    form.append(made("label", {}, name, fields[name]));
  }
  const count = made("p", { className: "count", ariaLive: "polite" });
  const list = made("div");

  const show = (all = false) => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = causes.filter((c) => {
      const text = [c.title, c.condition, c.runtime, ...c.functions].join(" ").toLowerCase();
      return words.every((word) => text.includes(word)) &&
        Object.entries(FILTERS).every(([name, of]) => !fields[name].value || of(c).includes(fields[name].value));
    });
    count.textContent = `${chosen.length} of ${causes.length} causes; counted: ${totals.zoo.toLocaleString("en")} zoo models, ${totals.everyday} everyday programs`;
    list.replaceChildren();
    let group = "", rows;
    for (const c of chosen.slice(0, all ? undefined : FIRST)) {
      if (group !== c.severity + c.nature) {
        group = c.severity + c.nature;
        rows = made("ul");
        list.append(made("h3", {}, `${c.severity}: ${c.nature} `, made("small", {}, natures[c.nature])), rows);
      }
      rows.append(row(c));
    }
    if (!all && chosen.length > FIRST) {
      list.append(made("button", { className: "md-button", onclick: () => show(true) }, `show all ${chosen.length}`));
    }
    const asked = Object.entries({ search, ...fields }).filter(([, field]) => field.value);
    history.replaceState(null, "", "?" + new URLSearchParams(asked.map(([name, field]) => [name, field.value])));
  };

  for (const [name, value] of new URLSearchParams(location.search)) {
    if (name === "search" || name in fields) (name === "search" ? search : fields[name]).value = value;
  }
  form.addEventListener("input", () => show());
  root.append(made("style", {}, STYLE), form, count, list);
  show();
})();
