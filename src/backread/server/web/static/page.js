// What the page does beyond links, forms and htmx: keys, the turn beside the page, and an answer as it is made.
"use strict";

(() => {
  const $ = (selector) => document.querySelector(selector);
  const panel = $("#panel");
  let opener = null;

  // --- the turn beside the page

  function closePanel() {
    if (!panel || panel.hidden) return;
    panel.hidden = true;
    panel.replaceChildren();
    document.querySelectorAll(".jump[aria-current]").forEach((link) => link.removeAttribute("aria-current"));
    if (opener && opener.isConnected) opener.focus();
    opener = null;
  }

  // With a modifier a link opens where the browser opens it: htmx would take the click.
  document.addEventListener("click", (event) => {
    const modified = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
    if (modified && event.target.closest(".jump")) event.stopImmediatePropagation();
  }, true);

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-close]")) closePanel();
    const link = event.target.closest(".jump");
    if (link && !(panel && panel.contains(link))) opener = link;
    const row = event.target.closest(".hits li, .lines > li, .cited > li");
    if (row && !event.target.closest("a, summary") && String(getSelection()) === "") {
      const first = row.querySelector(".jump");
      if (first) first.click();
    }
  });

  document.addEventListener("htmx:afterSwap", (event) => {
    if (!panel || event.detail.target !== panel) return;
    panel.hidden = false;
    document.querySelectorAll(".jump[aria-current]").forEach((link) => link.removeAttribute("aria-current"));
    if (opener) {
      opener.setAttribute("aria-current", "true");
      (opener.closest("[data-move]") || opener).scrollIntoView({ block: "nearest" });
    }
    const target = panel.querySelector(".target");
    if (target) panel.scrollTop = target.offsetTop - panel.clientHeight / 3;
    const title = panel.querySelector("h2");
    if (title) title.focus({ preventScroll: true });
  });

  // --- keys

  const stored = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
  const keysOn = $("#keys-on");
  keysOn.checked = stored("backread-keys") !== "off";
  keysOn.addEventListener("change", () => {
    try { localStorage.setItem("backread-keys", keysOn.checked ? "on" : "off"); } catch { /* kept until the page is left */ }
  });

  const help = $("#help");
  $("[data-help]").addEventListener("click", () => help.showModal());

  function move(step) {
    const items = [...document.querySelectorAll("[data-move]")].filter((item) => item.offsetParent !== null);
    if (!items.length) return;
    const at = items.findIndex((item) => item.contains(document.activeElement));
    const seen = items.findIndex((item) => item.getBoundingClientRect().bottom > 64);
    const next = at < 0 ? Math.max(seen, 0) : Math.min(Math.max(at + step, 0), items.length - 1);
    const item = items[next];
    const focused = item.matches("[tabindex]") ? item : item.querySelector("a[href]") || item;
    focused.focus({ preventScroll: true });
    item.scrollIntoView({ block: "nearest" });
  }

  function find() {
    const field = $("[data-find]");
    if (field) {
      field.focus();
      field.select();
    } else if (document.body.dataset.search) {
      location.href = document.body.dataset.search;
    }
  }

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (!help.open) closePanel();
      return;
    }
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (typing || help.open || !keysOn.checked || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = { "/": find, "?": () => help.showModal(), j: () => move(1), k: () => move(-1) }[event.key];
    if (action) {
      event.preventDefault();
      action();
    } else if (event.key === "Enter" && event.target.matches("[data-move]")) {
      const link = event.target.querySelector("a[href]");
      if (link) link.click();
    }
  });

  // --- an answer as it is made

  const ask = $("#ask");
  let running = null;

  async function* messages(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      const parts = text.split("\n\n");
      text = parts.pop();
      for (const part of parts) {
        const kind = /^event: (.*)$/m.exec(part);
        const data = /^data: (.*)$/m.exec(part);
        if (kind && data) yield [kind[1], JSON.parse(data[1])];
      }
    }
  }

  function put(part, html) {
    const place = document.getElementById(part);
    place.insertAdjacentHTML("beforeend", html);
    htmx.process(place);
  }

  function fail(detail, hint) {
    const told = document.createElement("div");
    told.className = "problem";
    for (const text of [detail, hint]) {
      if (!text) continue;
      const line = document.createElement("p");
      line.textContent = text;
      told.append(line);
    }
    $("#answer").append(told);
  }

  function clock(started) {
    const place = $("#clock");
    const tell = () => { place.textContent = `${((performance.now() - started) / 1000).toFixed(1)} s`; };
    tell();
    const timer = setInterval(tell, 200);
    return () => { clearInterval(timer); tell(); };
  }

  async function follow(form, signal) {
    const headers = { Accept: "text/event-stream", "Content-Type": "application/x-www-form-urlencoded" };
    const body = new URLSearchParams(new FormData(form));
    const response = await fetch(form.action, { method: "POST", headers, body, signal });
    if (response.status === 401) {
      location.reload();
      return;
    }
    if (!response.ok) {
      put("answer", await response.text());
      return;
    }
    let over = false;
    for await (const [kind, value] of messages(response.body)) {
      over = kind !== "step";
      if (kind === "error") fail(value.detail, value.hint);
      else put(value.part, value.html);
    }
    if (!over) fail("The connection broke off before the answer.", "Ask again.");
  }

  if (ask) {
    ask.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (running) running.abort();
      const mine = new AbortController();
      running = mine;
      closePanel();
      for (const part of ["answer", "memory", "steps"]) document.getElementById(part).replaceChildren();
      $("#told").hidden = false;
      $("#told").setAttribute("aria-busy", "true");
      const stop = clock(performance.now());
      try {
        await follow(ask, mine.signal);
      } catch (error) {
        if (error.name !== "AbortError") fail("The server could not be reached.", String(error.message));
      }
      stop();
      if (running === mine) $("#told").removeAttribute("aria-busy");
    });
  }
})();
