"use strict";
// Texts go into the page as text only; a page made by scirocco runs this and nothing else.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const every = (selector, root = document) => [...root.querySelectorAll(selector)];

  function element(tag, text, attributes = {}) {
    const found = document.createElement(tag);
    if (text !== undefined && text !== null) found.textContent = text;
    for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
    return found;
  }

  function saved(name, text, type) {
    const link = element("a", null, { download: name });
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  const share = (value) => (value === null ? "–" : value >= 0.001 ? value.toFixed(4) : value < 1e-6 ? "<1e-6" : value.toExponential(1));

  // Copying, where the browser lets a file do it; elsewhere the code is selected.
  for (const button of every("[data-copy]")) {
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(button.parentElement.querySelector("code"));
      }
    });
  }

  // Tables.
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.sort === undefined ? cell.textContent : Number(cell.dataset.sort);
  };
  const missing = (entry) => entry === "–" || entry === "";
  function compared(a, b) {
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  }
  for (const table of every("table.sortable")) {
    const heads = every("thead th", table);
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].sort((first, second) => {
          const [a, b] = [value(first, column), value(second, column)];
          return missing(a) || missing(b) ? compared(a, b) : (down ? -1 : 1) * compared(a, b);
        });
        table.tBodies[0].append(...rows);
      });
    });
  }
  for (const button of every("[data-csv]")) {
    button.addEventListener("click", () => {
      const table = button.parentElement.querySelector("table");
      const quoted = (cell) => {
        const text = cell.dataset.sort ?? cell.textContent;
        return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
      };
      const head = every("thead th", table).map((cell) => cell.textContent.trim());
      const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map(quoted).join(","));
      saved(`${button.dataset.csv}.csv`, `${[head.join(","), ...rows].join("\n")}\n`, "text/csv");
    });
  }
  for (const button of every("[data-json]")) {
    button.addEventListener("click", () =>
      saved(`${button.dataset.json}.json`, JSON.stringify(data[button.dataset.json]), "application/json"));
  }

  // Long traces.
  const dashes = [[], [6, 3], [2, 2], [8, 3, 2, 3]];
  const colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
  function drawn(place) {
    const trace = data.traces[Number(place.dataset.trace)];
    const ink = colour("--soft");
    const axis = { stroke: ink, grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") } };
    const series = trace.chains.map((chain, k) => ({
      label: `chain ${chain}`, width: 1, dash: dashes[k % 4], points: { show: false },
      stroke: colour(["--mark", "--mark2", "--mark3", "--mark4"][k % 4]),
    }));
    const width = Math.min(660, place.parentElement.parentElement.clientWidth || 660);
    place.replaceChildren();
    return new uPlot(
      { width, height: 170, scales: { x: { time: false } }, axes: [axis, { ...axis, size: 64 }],
        series: [{ label: "draw" }, ...series], cursor: { y: false, drag: { x: true, y: false } } },
      [trace.at, ...trace.values], place);
  }
  if (data.traces) {
    const draw = () => every("[data-trace]").forEach(drawn);
    draw();
    for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", draw);
    let width = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
  }

  // Topics: one page each, by the anchor, and words by relevance.
  if (data.topics) {
    const topics = data.topics;
    const relevance = document.getElementById("relevance");
    let shown = null;
    function words(topic) {
      const weight = Number(relevance.value);
      document.getElementById("relevance-value").textContent = weight.toFixed(2);
      const own = topics.words[topic];
      const score = (row) => weight * Math.log(row[1]) + (1 - weight) * Math.log(row[4]);
      const first = own.slice().sort((a, b) => score(b) - score(a)).slice(0, topics.shown);
      const most = Math.max(...first.map((row) => row[1]));
      return first.map(([word, p, low, high, lift]) => {
        const row = element("tr");
        row.append(element("th", topics.vocabulary[word], { scope: "row" }));
        const bar = element("td", null, { class: "share" });
        const fill = element("span", null, { "aria-hidden": "true" });
        fill.style.width = `${(100 * p) / most}%`;
        bar.append(fill);
        row.append(bar, element("td", share(p), { class: "num" }));
        row.append(element("td", low === null ? "–" : `${share(low)} to ${share(high)}`, { class: "num" }));
        row.append(element("td", lift.toPrecision(3), { class: "num" }));
        return row;
      });
    }
    function show(topic, move) {
      shown = topic;
      every("[data-topic]").forEach((page) => { page.hidden = Number(page.dataset.topic) !== topic; });
      every("a[data-place]").forEach((place) =>
        Number(place.dataset.place) === topic ? place.setAttribute("aria-current", "true") : place.removeAttribute("aria-current"));
      document.getElementById("topic-words").tBodies[0].replaceChildren(...words(topic));
      document.getElementById("topic-name").textContent = topics.names[topic];
      if (move) document.getElementById("topic-name").focus();
    }
    const wanted = () => { const found = /^#topic-(\d+)$/.exec(location.hash); return found && topics.words[Number(found[1])] ? Number(found[1]) : null; };
    addEventListener("hashchange", () => { if (wanted() !== null) show(wanted(), true); });
    relevance.addEventListener("input", () => show(shown, false));
    every("[data-step]").forEach((button) => button.addEventListener("click", () => {
      const count = topics.words.length;
      location.hash = `#topic-${(shown + Number(button.dataset.step) + count) % count}`;
    }));
    const search = document.getElementById("search");
    search.addEventListener("input", () => {
      const asked = search.value.trim().toLowerCase();
      const found = [];
      if (asked) {
        topics.vocabulary.forEach((word, k) => {
          if (word.toLowerCase().includes(asked)) for (const [topic, p] of topics.where[k]) found.push([word, topic, p]);
        });
        topics.documents.forEach(([name, topic, p]) => { if (name.toLowerCase().includes(asked)) found.push([name, topic, p]); });
      }
      found.sort((a, b) => b[2] - a[2]);
      document.getElementById("found-count").textContent = asked ? `${found.length} found` : "";
      document.getElementById("found").replaceChildren(...found.slice(0, 60).map(([name, topic, p]) => {
        const item = element("li", `${name}: `);
        item.append(element("a", topics.names[topic], { href: `#topic-${topic}` }), ` ${share(p)}`);
        return item;
      }));
    });
    show(wanted() ?? 0, false);
  }
})();
