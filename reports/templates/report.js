"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const text = (index) => data.texts[index];
  // The sentence in the page's language, with its fields.
  const say = (text, fields = {}) => (data.words[text] ?? text).replace(/\{(\w+)\}/g, (_, name) => fields[name]);
  const WORD = { p: "pass", w: "warn", f: "fail", e: "error", n: "not-judged", s: "skip", a: "waived", " ": "no result" };
  const SIGN = { p: "·", w: "W", f: "F", e: "E", n: "N", s: "–", a: "A", " ": " " };
  const RANK = "feawns p"; // the worst first
  const GOOD = new Set(["accepted", "accepted-with-waivers", "accepted-with-gaps"]);

  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children.filter((child) => child !== null));
    return element;
  };
  // What many nodes have is there once.
  const alike = (index) => (index === undefined ? [] : data.alike[index]);
  data.nodes.forEach((node) => { node.c = text(node.c); });
  const verdict = (node) => data.verdicts[node.v];
  const count = (node, letter) => node.c.split(letter).length - 1;
  const speaks = (node) => verdict(node) === "unreachable" || /[wfea]/.test(node.c);
  const names = new Map(data.nodes.map((node, index) => [node.n, index]));
  const platforms = new Set(data.nodes.map((node) => node.p));
  const racked = data.nodes.some((node) => text(node.r));

  // ---- the matrix -------------------------------------------------------------------------------------------------
  const columns = [
    ["Node", null, (node) => make("a", { href: "#node=" + encodeURIComponent(node.n), textContent: node.n })],
    ["Verdict", (node) => node.v, (node) => make("span", { className: "word " + verdict(node), textContent: say(verdict(node)) })],
    racked ? ["Rack", null, (node) => text(node.r), (node) => node.r] : null,
    platforms.size > 1 ? ["Platform", null, (node) => text(node.p), (node) => node.p] : null,
    ["F", (node) => -count(node, "f"), (node) => count(node, "f") || ""],
    ["E", (node) => -count(node, "e"), (node) => count(node, "e") || ""],
    ["W", (node) => -count(node, "w"), (node) => count(node, "w") || ""],
  ].filter(Boolean);
  const TITLE = { F: say("Checks failed"), E: say("Checks that could not be measured"), W: say("Checks with a warning") };
  const HEAD = { Node: say("Node"), Verdict: say("Verdict"), Rack: say("Rack"), Platform: say("Platform") };

  const strip = (node) => {
    const cell = make("td", { className: "cells" });
    if (node.u !== undefined) {
      cell.append(make("span", { className: "reason", textContent: text(node.u) }));
      return cell;
    }
    let plain = "";
    for (const letter of node.c) {
      if (letter === "p" || letter === " ") { plain += SIGN[letter]; continue; }
      if (plain) { cell.append(plain); plain = ""; }
      cell.append(make("b", { className: "sign " + WORD[letter], textContent: SIGN[letter] }));
    }
    cell.append(plain);
    const said = ["f", "e", "w", "a"].map((letter) => {
      const found = data.checks.filter((_, index) => node.c[index] === letter);
      return found.length ? say(WORD[letter]) + ": " + found.join(", ") : "";
    }).filter(Boolean);
    cell.setAttribute("role", "img");
    cell.setAttribute("aria-label", said.join("; ") || say("{pass} pass, {skip} skip", { pass: count(node, "p"), skip: count(node, "s") }));
    return cell;
  };

  const row = (node, index) => {
    const line = make("tr", {});
    line.dataset.index = index;
    columns.forEach(([name, , show], place) => {
      const cell = make(place ? "td" : "th", { className: name.length === 1 ? "n" : "" }, show(node));
      if (!place) cell.scope = "row";
      line.append(cell);
    });
    line.append(strip(node));
    return line;
  };

  const rows = data.nodes.map(row);
  const body = make("tbody", {});
  const heads = columns.map(([name]) => make("th", { scope: "col", className: name.length === 1 ? "n" : "", title: TITLE[name] || "" },
    make("button", { type: "button", textContent: HEAD[name] || name })));
  const label = (check) => {
    const at = check.lastIndexOf(".") + 1;
    return [make("span", { className: "module", textContent: check.slice(0, at) }), check.slice(at)];
  };
  const marks = data.checks.map((check) => make("button", { type: "button", title: say("Sort by {check}", { check }) }, ...label(check)));
  const strips = make("th", { scope: "col", className: "heads" }, make("span", {}, ...marks));
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...heads, strips)), body);

  const module = (check) => check.slice(0, check.lastIndexOf(".") + 1);
  const edges = data.checks.flatMap((check, index) => (index && module(check) !== module(data.checks[index - 1]) ? [index] : []));
  let wide = 16; // pixels a cell
  const size = (pixels) => {
    wide = pixels;
    const rules = edges.map((index) => index * wide).map((at) =>
      `transparent ${at - 1}px, var(--line) ${at - 1}px, var(--line) ${at}px, transparent ${at}px`);
    table.style.setProperty("--cell", wide + "px");
    table.style.setProperty("--rules", rules.length ? `linear-gradient(90deg, ${rules.join(", ")})` : "none");
  };
  const fit = () => {
    const left = heads.reduce((sum, head) => sum + head.offsetWidth, 0);
    const room = (byId("grid").clientWidth - left - 14) / Math.max(1, data.checks.length);
    size(Math.max(10, Math.min(26, Math.floor(room))));
  };

  const go = (target, from) => { // the next Tab goes on from there
    target.focus({ preventScroll: true });
    from.scrollIntoView();
  };

  // ---- filter and sort --------------------------------------------------------------------------------------------
  const find = byId("find"), pick = byId("pick"), shown = byId("shown"), chips = byId("chips");
  const boxes = data.verdicts.map((word, index) => {
    const number = data.nodes.filter((node) => node.v === index).length;
    if (!number) return null;
    const box = make("input", { type: "checkbox", checked: true });
    chips.append(make("label", {}, box, " ", make("span", { className: "badge " + word, textContent: say(word) }), " " + number.toLocaleString("en")));
    return box;
  });
  data.checks.forEach((check, index) => pick.append(make("option", { value: String(index), textContent: check })));
  let order = data.nodes.map((_, index) => index);
  const passes = (node) => {
    const hay = [node.n, text(node.r), text(node.p), verdict(node), say(verdict(node))].join(" ").toLowerCase();
    return boxes[node.v].checked
      && find.value.toLowerCase().split(/[\s,]+/).every((word) => hay.includes(word))
      && (pick.value === "" || "wfean ".includes(node.c[Number(pick.value)]));
  };
  const show = () => {
    const kept = order.filter((index) => passes(data.nodes[index]));
    body.replaceChildren(...kept.map((index) => rows[index]));
    shown.textContent = say("{n} of {total} nodes", { n: kept.length.toLocaleString("en"), total: data.nodes.length.toLocaleString("en") });
  };
  const natural = new Intl.Collator("en", { numeric: true }).compare;
  const sort = (head, key, downward) => {
    const values = data.nodes.map(key);
    const compare = (a, b) => (typeof values[a] === "number" ? values[a] - values[b] : natural(values[a], values[b]));
    order.sort((a, b) => (downward ? compare(b, a) : compare(a, b)) || natural(data.nodes[a].n, data.nodes[b].n));
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    marks.forEach((other) => other.classList.toggle("on", other === head));
    if (heads.includes(head)) head.setAttribute("aria-sort", downward ? "descending" : "ascending");
    show();
  };
  heads.forEach((head, place) => head.firstChild.addEventListener("click", () => {
    const [name, key] = columns[place];
    const by = key || { Node: (node) => node.n, Rack: (node) => text(node.r), Platform: (node) => text(node.p) }[name];
    sort(head, by, head.getAttribute("aria-sort") === "ascending");
  }));
  marks.forEach((mark, index) => mark.addEventListener("click", () => sort(mark, (node) => RANK.indexOf(node.c[index]), false)));
  byId("controls").addEventListener("input", show);
  byId("controls").addEventListener("submit", (event) => event.preventDefault());

  // ---- the causes -------------------------------------------------------------------------------------------------
  const causes = data.causes.map(([anchor, severity, part, what, nodes]) => ({
    anchor, severity: text(severity), said: `${text(part)}: ${text(what)}`, nodes: new Set(nodes),
  }));
  const bodies = document.querySelectorAll("tbody.cause");
  causes.forEach((cause, index) => {
    cause.body = bodies[index];
    const where = [...cause.nodes].map((node) => `${data.nodes[node].n} ${text(data.nodes[node].r)}`);
    cause.hay = [bodies[index].textContent, ...where].join(" ").toLowerCase();
    cause.racks = new Set([...cause.nodes].map((node) => text(data.nodes[node].r)));
  });
  const causeControls = byId("cause-controls");
  const showCauses = () => {
    const wanted = (name) => causeControls.querySelector(`[data-filter="${name}"]`)?.value || "";
    const words = byId("cause-find").value.toLowerCase().split(/[\s,]+/);
    let kept = 0;
    causes.forEach(({ body, hay, racks }) => {
      body.hidden = !(words.every((word) => hay.includes(word))
        && [body.dataset.severity, ""].includes(wanted("severity")) && [body.dataset.class, ""].includes(wanted("class"))
        && (!wanted("rack") || racks.has(wanted("rack"))));
      kept += !body.hidden;
    });
    byId("causes-shown").textContent = say("{n} of {total}", { n: kept.toLocaleString("en"), total: causes.length.toLocaleString("en") });
  };
  const openCause = (anchor) => {
    const found = causes.find((cause) => cause.anchor === anchor);
    if (!found) return;
    if (found.body.hidden) { causeControls.reset(); showCauses(); }
    bodies.forEach((body) => body.classList.toggle("mark", body === found.body));
    const folded = found.body.querySelector(".more details");
    folded.open = true;
    go(folded.firstElementChild, found.body);
  };
  if (causeControls) {
    causeControls.addEventListener("input", showCauses);
    causeControls.addEventListener("submit", (event) => event.preventDefault());
    showCauses();
  }

  // ---- filters in the address: a link shows what its sender saw --------------------------------------------------
  const fields = [["find", find], ["check", pick], ["cause", byId("cause-find")],
    ...["severity", "class", "rack"].map((name) => [name, causeControls?.querySelector(`[data-filter="${name}"]`)])].filter(([, field]) => field);
  const keep = () => {
    const state = new URLSearchParams();
    fields.forEach(([name, field]) => { if (field.value) state.set(name, name === "check" ? data.checks[field.value] : field.value); });
    boxes.forEach((box, index) => { if (box && !box.checked) state.append("without", data.verdicts[index]); });
    history.replaceState(null, "", "#show=" + state);
  };
  const restore = (state) => {
    fields.forEach(([name, field]) => {
      const value = state.get(name) || "";
      field.value = name === "check" && value ? String(data.checks.indexOf(value)) : value;
    });
    boxes.forEach((box, index) => { if (box) box.checked = !state.getAll("without").includes(data.verdicts[index]); });
    show();
    if (causeControls) showCauses();
    byId(["find", "check", "without"].some((name) => state.has(name)) ? "matrix" : "findings").scrollIntoView();
  };
  [byId("controls"), causeControls].forEach((form) => form?.addEventListener("input", keep));

  // ---- one node ---------------------------------------------------------------------------------------------------
  const file = (path) => /^evidence(\/[\w-][\w.+-]*)+$/.test(path)
    ? make("a", { href: path, textContent: path.slice(path.indexOf("/") + 1) }) : path;
  // What a result says, a line a finding: [word, part, observed, expected, action, files, source of the limit].
  const said = ({ letter, folder, result: [, message, findings, evidence, waiver] }) => {
    const bad = letter === "p" ? findings : findings.filter(([one]) => one !== "p");
    const rest = waiver === undefined ? "" : say(" (waived: {waiver})", { waiver: text(waiver) });
    const show = (index) => (index === null ? "" : text(index));
    const files = evidence.map((path) => text(path).replace(/^evidence\/\//, () => folder));
    return (bad.length ? bad : [[letter, null, message, null, null, null]]).map(([one, part, observed, expected, action, source]) =>
      [WORD[waiver === undefined ? one : letter], show(part), text(observed), show(expected), show(action) + rest, files, show(source)]);
  };
  const cell = (className, ...children) => make("td", { className }, ...children);
  const many = (checks) => {
    const list = checks.map((check) => data.checks[check]).join(", ");
    return checks.length > 4
      ? make("details", { className: "many" }, make("summary", { textContent: say("{n} checks", { n: checks.length }) }), list) : list;
  };
  // Checks that say exactly the same share a line.
  const lines = (found) => {
    const same = new Map();
    for (const one of found) {
      for (const parts of said(one)) {
        const key = JSON.stringify(parts);
        if (!same.has(key)) same.set(key, { parts, checks: [] });
        const { checks } = same.get(key);
        if (!checks.includes(one.result[0])) checks.push(one.result[0]);
      }
    }
    return [...same.values()].map(({ parts: [word, part, observed, expected, action, files, source], checks }) => {
      const line = make("tr", {},
        cell("", make("span", { className: "badge " + word, textContent: say(word) })), cell("check", many(checks)), cell("", part),
        cell("", observed), Object.assign(cell("", expected), { title: source }), cell("", action), cell("mono", ...files.flatMap((path) => [file(path), " "])));
      line.dataset.checks = checks.join(" ");
      return line;
    });
  };
  const HEADS = [say("Verdict"), say("Check"), say("Part"), say("Observed"), say("Expected"), say("Next action"), say("Evidence")];
  const results = (found) => make("div", { className: "scroll", tabIndex: 0 }, make("table", { className: "results" },
    make("thead", {}, make("tr", {}, ...HEADS.map((word) => make("th", { scope: "col", textContent: word })))),
    make("tbody", {}, ...lines(found))));
  const fold = (title, found) => found.length
    ? make("details", {}, make("summary", { textContent: title }), results(found)) : null;
  const pairs = (list) => list.length ? make("div", { className: "facts" }, ...list.map(([name, value]) =>
    make("div", {}, make("span", { textContent: name }), make("span", { textContent: value })))) : null;

  const CLAIM = { proven: "pass", refuted: "fail", "not-proven": "error" };
  const claims = ([proven, all, rows]) => {
    const title = make("summary", { textContent: say("{proven} of {all} claims proven", { proven, all }) });
    return make("details", { open: proven < all && rows.length <= 8 }, title, make("ul", { className: "reasons" },
      ...rows.map(([state, claim, words]) => make("li", {},
        make("span", { className: "badge " + CLAIM[state], textContent: say(state) }), ` ${text(claim)}: ${text(words)}`))));
  };

  const article = (node) => {
    const folder = `evidence/${node.n}/`;
    const all = alike(node.d).map(alike).map((result) => ({ letter: node.c[result[0]], folder, result }));
    const having = (letters) => all.filter((one) => letters.includes(one.letter))
      .sort((a, b) => RANK.indexOf(a.letter) - RANK.indexOf(b.letter));
    const wrong = having("feawn");
    const reasons = causes.filter((cause) => cause.nodes.has(names.get(node.n))).map(({ anchor, severity, said }) =>
      make("li", {}, make("span", { className: "badge sev-" + severity.replace(" ", "-"), textContent: say(severity) }), " ",
        make("a", { href: "#cause=" + anchor, textContent: said })));
    const about = [text(node.p), text(node.r) && say("rack {rack}", { rack: text(node.r) })].filter(Boolean).join(", ");
    const numbers = [...RANK].filter((letter) => count(node, letter)).map((letter) => `${count(node, letter)} ${say(WORD[letter])}`).join(", ");
    const elsewhere = data.passes || !count(node, "p") ? "" : say("The values of passed checks are in results.jsonl.gz.");
    return make("article", {},
      make("div", { className: "head" }, make("h3", { textContent: node.n }),
        make("span", { className: "badge " + verdict(node), textContent: say(verdict(node)) }),
        make("span", { textContent: about }), make("span", { className: "dim", textContent: numbers })),
      node.u === undefined ? null : make("div", {}, make("p", { textContent: say("Not reachable: {why}", { why: text(node.u) }) })),
      reasons.length ? make("ul", { className: "reasons" }, ...reasons) : null,
      node.k === undefined ? null : claims(node.k),
      wrong.length ? make("details", { className: "wrong", open: wrong.length <= 12 || !reasons.length },
        make("summary", { textContent: say("{n} checks with findings", { n: wrong.length }) }), results(wrong)) : null,
      fold(say("{n} passed, with what was measured", { n: count(node, "p") }), having("p")),
      fold(say("{n} do not apply here, or were not asked for", { n: count(node, "s") }), having("s")),
      elsewhere ? make("div", { className: "note", textContent: elsewhere }) : null,
      pairs(alike(node.i).map(([name, value]) => [text(name), text(value)])),
      pairs(alike(node.s?.[0]).map((name, at) => ["S/N " + text(name), node.s[at + 1]])));
  };

  const articles = byId("articles");
  const loud = data.nodes.filter(speaks);
  const first = loud.length <= 8 ? loud : loud.slice(0, 1);
  const fill = (nodes) => articles.replaceChildren(...nodes.map(article));
  const open = (name, check) => {
    if (!names.has(name)) return;
    fill([data.nodes[names.get(name)]]);
    articles.querySelectorAll("tr").forEach((line) => {
      if (!(line.dataset.checks || "").split(" ").includes(String(check))) return;
      line.classList.add("mark");
      const folded = line.closest("details");
      if (folded) folded.open = true;
    });
    go(byId("h-node"), byId("node"));
  };
  const place = (event, cell) => {
    const from = parseFloat(getComputedStyle(cell).paddingLeft) - (wide - 7) / 2;
    return Math.floor((event.clientX - cell.getBoundingClientRect().left - from) / wide);
  };
  body.addEventListener("mousemove", (event) => {
    const cell = event.target.closest("td.cells");
    if (!cell) return;
    const check = place(event, cell), node = data.nodes[cell.parentNode.dataset.index];
    cell.title = check in data.checks ? `${node.n}  ${data.checks[check]}: ${say(WORD[node.c[check]])}` : "";
  });
  body.addEventListener("click", (event) => {
    const cell = event.target.closest("td.cells");
    if (!cell) return;
    const { n: name } = data.nodes[cell.parentNode.dataset.index];
    history.replaceState(null, "", "#node=" + encodeURIComponent(name));
    open(name, place(event, cell));
  });
  document.querySelector("main").addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#node='], a[href^='#cause='], a[data-check]");
    if (!link) return;
    if (link.dataset.check === undefined) { if (link.hash === location.hash) follow(); return; }
    pick.value = String(data.checks.indexOf(link.dataset.check));
    show();
  });
  const follow = () => {
    const hash = location.hash;
    try {
      if (hash.startsWith("#node=")) open(decodeURIComponent(hash.slice(6)));
      if (hash.startsWith("#show=")) restore(new URLSearchParams(hash.slice(6)));
      if (hash.startsWith("#cause=")) openCause(decodeURIComponent(hash.slice(7)));
    } catch { /* not one of ours */ }
  };
  addEventListener("hashchange", follow);

  // ---- paper ------------------------------------------------------------------------------------------------------
  addEventListener("beforeprint", () => {
    size(Math.max(7, Math.min(16, Math.floor(430 / Math.max(1, data.checks.length)))));
    fill(byId("print-all").checked ? data.nodes : loud);
    document.querySelectorAll("details.many").forEach((folded) => { folded.open = true; });
  });
  addEventListener("afterprint", () => { fit(); fill(first); });

  byId("grid").append(table);
  show();
  fit();
  addEventListener("resize", fit);
  fill(first);
  follow();
  document.documentElement.dataset.ready = "yes";
})();
