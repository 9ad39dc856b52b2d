"""Frames every page: one self-contained file that loads nothing from any server.

Its Content-Security-Policy enforces that. A page is light or dark as the reader's system is, prints
dark on white, and is readable at 420 pixels, by keyboard and by screen reader. The script only adds
sorting of long tables by a click on a heading; the page is complete without it.
"""

import html

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --raised: #f7f9fb; --ink: #1d2733; --soft: #566270; --line: #dde3ea;
  --ours: #eef5fd; --accent: #1a5a9e; --warn: #8f4300; --warn-ground: #fff6ea; --warn-line: #d9822b; --good: #0b6b4f;
  --shade: rgb(20 30 45 / .18); }
@media (prefers-color-scheme: dark) { :root { --paper: #14181d; --raised: #1b2129; --ink: #e8ecf1; --soft: #a5b0bd;
  --line: #2f3843; --ours: #1a2a3c; --accent: #8fc1f5; --warn: #f3b36b; --warn-ground: #2b2114; --warn-line: #b8742a;
  --good: #6fd3ae; --shade: rgb(0 0 0 / .6); } }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 84rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.01em; text-wrap: balance; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0 0 .5rem; }
h3 { font-size: 1.02rem; line-height: 1.35; margin: 0 0 .3rem; }
p { margin: 0 0 .7rem; max-width: 46rem; }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
code { font: .84em/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.skip { position: absolute; left: -99rem; } .skip:focus { left: 1rem; top: .5rem; background: var(--paper); }
.lead, .caption, .aside, footer { color: var(--soft); }
.lead { margin-bottom: 1.1rem; }
.caption { font-size: .93rem; }
.aside { font-size: .93rem; margin: .5rem 0; max-width: 60rem; }
.banner { border-left: 4px solid var(--warn-line); background: var(--warn-ground); padding: .6rem .9rem;
  margin: 0 0 1rem; max-width: none; border-radius: 0 6px 6px 0; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1.2rem; margin: 1.2rem 0 0; padding: .7rem 0; font-size: .95rem;
  border-top: 1px solid var(--line); border-bottom: 1px solid var(--line); }
main > section { padding: 2.2rem 0 .2rem; }
main > section > section, main > section > figure { margin: 0; padding: 1.1rem 0 .6rem; }
.glance { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); gap: .9rem;
  margin: 0; }
.glance > div { background: var(--raised); border: 1px solid var(--line); border-radius: 10px;
  padding: .8rem 1rem; }
.glance dt { font-weight: 650; font-size: .8rem; letter-spacing: .05em; text-transform: uppercase; color: var(--soft);
  margin: 0 0 .25rem; }
.glance dd { margin: 0; } .glance dd strong { font-size: 1.35rem; line-height: 1.25; display: block; }
.glance ul { margin: .3rem 0 0; padding: 0; list-style: none; font-size: .92rem; }
.answer { display: flex; flex-wrap: wrap; gap: 1.2rem 2rem; align-items: start; margin-bottom: 1.2rem; }
.answer > .glance { flex: 1 1 26rem; align-items: start; } .answer > figure { flex: 0 1 27rem; }
.bad { color: var(--warn); } .good { color: var(--good); }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 25rem), 1fr)); gap: 1.6rem 2.4rem;
  align-items: start; padding: .6rem 0; }
figure { margin: 0; break-inside: avoid; min-width: 0; }
figure svg { max-width: 100%; height: auto; display: block; overflow: visible; } /* fonts differ in width */
figcaption { color: var(--soft); font-size: .88rem; margin-top: .4rem; max-width: 30rem; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: .88rem;
  font-variant-numeric: tabular-nums; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { padding: .38rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap;
  font-weight: 400; }
thead th { vertical-align: bottom; font-weight: 600; color: var(--soft); background: var(--raised);
  white-space: normal; }
thead th.group { text-align: center; color: var(--ink); }
thead th.group:empty { border-bottom-color: transparent; }
tbody th, td.label, thead th.label { text-align: left; }
tbody th, td.label { white-space: normal; overflow-wrap: anywhere; min-width: 8rem; max-width: 34rem; }
td.long { white-space: normal; text-align: left; min-width: 19rem; }
th[scope=row] { position: sticky; left: 0; background: var(--paper); font-weight: 500; }
td.ours, thead th.ours, tr.ours th, tr.ours td { background: var(--ours); }
td.state { color: var(--warn); font-style: italic; }
td[colspan] { text-align: center; }
tbody tr:last-child > * { border-bottom: 0; }
tbody tr.begins > * { border-top: 1px solid color-mix(in srgb, var(--soft) 65%, var(--paper)); }
tbody tr:target > * { box-shadow: inset 0 2px var(--accent), inset 0 -2px var(--accent); }
th > button { all: unset; cursor: pointer; } th > button::after { content: " \\2195"; opacity: .45; }
th[aria-sort=ascending] > button::after { content: " \\2191"; opacity: 1; }
th[aria-sort=descending] > button::after { content: " \\2193"; opacity: 1; }
th > button:focus-visible, button.from:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
button.from { all: unset; cursor: pointer; text-decoration: underline dotted var(--soft) 1px;
  text-underline-offset: .25em; }
button.from.row { text-decoration: none; } button.from:hover { color: var(--accent); }
[popover] { display: none; } [popover]:popover-open { display: block; }
.provenance { max-width: min(36rem, calc(100vw - 2rem)); max-height: 80vh; overflow: auto; padding: .9rem 1.1rem;
  color: var(--ink); background: var(--paper); border: 1px solid var(--line); border-radius: 10px; font-size: .9rem;
  box-shadow: 0 8px 30px var(--shade); }
.provenance ul { padding-left: 1.1rem; margin: .3rem 0 .6rem; } .provenance p { margin: 0 0 .3rem; }
@supports (position-area: bottom) {
  .provenance { inset: auto; margin: .3rem; position-area: bottom span-right; position-try-fallbacks: flip-inline,
    flip-block, flip-block flip-inline; } }
small { display: block; color: var(--soft); font-size: .85em; line-height: 1.2; white-space: normal; }
sup { color: var(--accent); font-size: .72em; line-height: 0; margin-left: .1em; }
td.printed:not(.ours) sup { color: inherit; }
.notes, details ul { color: var(--soft); font-size: .88rem; padding-left: 1.1rem; margin: .6rem 0; max-width: 60rem; }
details { font-size: .93rem; color: var(--soft); } details.folded > .scroll { color: var(--ink); }
details.folded > summary { color: var(--ink); margin-bottom: .6rem; }
summary { cursor: pointer; }
footer { border-top: 1px solid var(--line); margin-top: 2.5rem; padding-top: .8rem; font-size: .88rem; }
@media (max-width: 40rem) {
  body { padding: 1.1rem .8rem 3rem; }
  h1 { font-size: 1.4rem; }
  th, td { padding: .32rem .42rem; }
  th[scope=row] { position: static; min-width: 6.5rem; }
  td.label { min-width: 10rem; }
  .scroll { margin: 0 -.8rem; border-radius: 0; border-left: 0; border-right: 0; }
}
@media print {
  :root { --paper: #fff; --raised: #fff; --ink: #000; --soft: #444; --line: #bbb; --ours: #f1f5fa; --accent: #000;
    --warn: #000; --warn-ground: #fff; }
  body { padding: 0; max-width: none; font-size: 10pt; } nav, .skip { display: none; }
  .scroll { overflow: visible; border: 0; } table { font-size: 7.5pt; } th, td { padding: .15rem .3rem; }
  th[scope=row] { position: static; } button.from { text-decoration: none; }
  tr, figure, .glance > div { break-inside: avoid; } h2, h3, thead { break-after: avoid; }
  .figures { display: block; } /* a grid would separate its heading from it at the end of a page */
  .figures > figure { display: inline-block; width: 48%; margin-right: 1%; vertical-align: top; }
}
""".strip()

SCRIPT = """
"use strict";
// A heading of a long table sorts it: numbers by size, else by letters; a second click turns the order round.
const valueOf = (row, index) => {
  const text = (row.cells[index]?.innerText ?? "").trim();
  const number = Number.parseFloat(text.replaceAll(",", "").replace(/^\\+/, ""));
  return /^[+\\-\\d.]/.test(text) && !Number.isNaN(number) ? number : text;
};
const compare = (first, second) => {
  if (typeof first === "number" && typeof second === "number") return first - second;
  if (typeof first === "number") return -1;
  if (typeof second === "number") return 1;
  return first.localeCompare(second);
};
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  heads.forEach((head, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const isAscending = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", isAscending ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => compare(valueOf(a, index), valueOf(b, index)) * (isAscending ? 1 : -1));
      table.tBodies[0].append(...rows);
    });
  });
}
// Following a link out of a provenance closes it, so that the linked row is visible.
for (const link of document.querySelectorAll("[popover] a")) {
  link.addEventListener("click", () => link.closest("[popover]").hidePopover());
}
""".strip()


def wrap_page(title: str, body: str) -> str:
    """Return a whole HTML page."""
    script = (
        f"<script>\n{SCRIPT}\n</script>\n" if "class=sortable" in body or "popover" in body else ""
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n{body}{script}</body>\n"
        "</html>\n"
    )
