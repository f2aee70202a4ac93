// The start page: sign in, then follow the fleet. Cells come by server-sent events, the rest by
// polling. Rows are kept and updated in place, so that focus and open details survive.

const POLL_MS = 3000;
// The stream's heartbeat comes each 10 s. After two and a half without one it is dead, whatever the
// browser thinks of the connection.
const HEARTBEAT_MS = 10000;
const SILENT_MS = 2.5 * HEARTBEAT_MS;
// A read that takes longer has failed.
const READ_MS = 10000;
const AGENTS_SHOWN = 100;
const MARKS = {
  closed: "●", half_open: "◐", open: "✕", unknown: "?",
  live: "●", draining: "◐", stale: "◌", gone: "–",
};
const WORDS = {
  closed: "closed", half_open: "half-open", open: "open", unknown: "unknown",
  live: "live", draining: "draining", stale: "stale", gone: "gone",
};

const byId = (id) => document.getElementById(id);

/** Builds an element; children may be text. */
function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (name === "class") node.className = value;
    else if (name in node && typeof value !== "string") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function mark(kind) {
  return element("span", { class: "mark", "data-kind": kind, "aria-hidden": "true" }, MARKS[kind]);
}

function chip(kind) {
  return element("span", { class: "chip", "data-kind": kind }, mark(kind), WORDS[kind]);
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

function clockTime(secondsAgo) {
  return new Date(Date.now() - secondsAgo * 1000).toLocaleTimeString();
}

const counted = (count, one, many) => `${count.toLocaleString()} ${count === 1 ? one : many}`;

// --- theme

const darkByDefault = matchMedia("(prefers-color-scheme: dark)");

function applyTheme() {
  const chosen = localStorage.getItem("theme");
  document.documentElement.dataset.theme = chosen ?? (darkByDefault.matches ? "dark" : "light");
}

darkByDefault.addEventListener("change", applyTheme);
applyTheme();

// --- what is known

const state = {
  cells: new Map(),
  cellsAt: 0,
  agents: [],
  agentsAt: 0,
  moreAgents: false,
  gateways: [],
  summary: null,
  snapshot: false,
  heardAt: 0,
  // When the stream last said anything, a heartbeat included.
  streamAt: 0,
  partial: false,
  stream: null,
  poll: null,
  pollFailed: false,
};

// A provider's own cell has neither pool nor lane.
const keyOf = (cell) => JSON.stringify([
  cell.gateway, cell.pool, cell.lane, cell.lane === null ? cell.provider : null, cell.endpoint,
]);

/** What a cell is called: its pool and lane, or the provider whose own it is. */
function nameOf(cell) {
  if (cell.lane === null) return `provider ${cell.provider}`;
  return `${cell.pool === "" ? "direct" : cell.pool} › ${cell.lane}`;
}

// --- API

class SignedOut extends Error {}

async function get(path) {
  const response = await fetch(path, {
    headers: { accept: "application/json" },
    signal: AbortSignal.timeout(READ_MS),
  });
  if (response.status === 401) throw new SignedOut();
  if (!response.ok) throw new Error(await whatFailed(response));
  return response.json();
}

async function whatFailed(response) {
  try {
    return (await response.json()).detail;
  } catch {
    return `the server answered ${response.status}`;
  }
}

async function signIn(token) {
  const response = await fetch("/session", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token }),
  });
  if (!response.ok) throw new Error(await whatFailed(response));
  return response.json();
}

// --- sign in

function showSignIn(error = "") {
  stop();
  byId("fleet").hidden = true;
  byId("sign-in").hidden = false;
  setText(byId("sign-in-error"), error);
  byId("token").focus();
}

byId("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.target.querySelector("button");
  button.disabled = true;
  setText(byId("sign-in-error"), "");
  try {
    const session = await signIn(byId("token").value.trim());
    byId("token").value = "";
    showFleet(session);
  } catch (error) {
    setText(byId("sign-in-error"), error instanceof TypeError ? "The server does not answer." : error.message);
    byId("token").select();
  } finally {
    button.disabled = false;
  }
});

byId("sign-out").addEventListener("click", async () => {
  await fetch("/session", { method: "DELETE" }).catch(() => {});
  showSignIn();
});

byId("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", next);
  applyTheme();
});

// --- following the fleet

function showFleet(session) {
  byId("sign-in").hidden = true;
  byId("fleet").hidden = false;
  byId("who").replaceChildren(element("b", {}, session.name), ` · ${session.role}`);
  follow();
  poll();
}

function stop() {
  state.stream?.close();
  state.stream = null;
  clearTimeout(state.poll);
  state.poll = null;
}

/** Opens the stream; with `keep` what is shown stays until its first snapshot. */
function follow(keep = false) {
  state.stream?.close();
  if (!keep) {
    state.snapshot = false;
    state.cells.clear();
  }
  const query = new URLSearchParams();
  if (byId("gateway-filter").value) query.set("gateway", byId("gateway-filter").value);
  if (byId("show-closed").checked) query.set("include", "closed");
  const stream = new EventSource(`/api/v1/breaker-state/stream?${query}`);
  state.stream = stream;
  state.streamAt = Date.now();
  stream.addEventListener("open", () => { alive(); render(); });
  stream.addEventListener("heartbeat", () => { alive(); render(); });
  stream.addEventListener("snapshot", (event) => {
    const view = JSON.parse(event.data);
    state.cells = new Map(view.cells.map((cell) => [keyOf(cell), { ...cell, at: Date.now() }]));
    state.snapshot = true;
    heard(view);
  });
  stream.addEventListener("change", (event) => {
    const change = JSON.parse(event.data);
    for (const cell of change.cells) state.cells.set(keyOf(cell), { ...cell, at: Date.now() });
    for (const cell of change.gone) state.cells.delete(keyOf(cell));
    heard(change);
    refresh();
  });
  stream.addEventListener("error", async () => {
    render();
    if (stream !== state.stream || stream.readyState !== EventSource.CLOSED) return;
    // The browser gives up on an error status: learn which, and try again if it may pass.
    await new Promise((wake) => setTimeout(wake, POLL_MS));
    if (stream === state.stream) follow(true);
  });
  render();
}

function alive() {
  state.heardAt = Date.now();
  state.streamAt = state.heardAt;
}

/** Gives up a stream that has gone silent: a frozen server closes no connection. */
function watch() {
  if (state.stream && Date.now() - state.streamAt > SILENT_MS && !document.hidden) follow(true);
}

function heard(message) {
  alive();
  state.partial = message.partial;
  render();
}

async function refresh() {
  try {
    const [summary, agents, gateways] = await Promise.all([
      get("/api/v1/summary"),
      get(`/api/v1/agents?limit=${AGENTS_SHOWN}`),
      get("/admin/v1/gateways"),
    ]);
    state.summary = summary;
    state.agents = agents.agents;
    state.moreAgents = agents.next_cursor !== null;
    state.agentsAt = Date.now();
    state.gateways = gateways.gateways;
    state.heardAt = Date.now();
    state.pollFailed = false;
  } catch (error) {
    if (error instanceof SignedOut) {
      showSignIn("The session has ended.");
      return;
    }
    state.pollFailed = true;
  }
  render();
}

async function poll() {
  clearTimeout(state.poll);
  await refresh();
  for (const row of cellRows.values()) if (row.open) row.loadDetail();
  if (state.stream) state.poll = setTimeout(poll, POLL_MS);
}

byId("show-closed").addEventListener("change", () => follow());
byId("gateway-filter").addEventListener("change", () => follow());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && state.stream) poll();
});

// --- drawing

function render() {
  if (byId("fleet").hidden) return;
  renderConnection();
  renderTiles();
  renderGatewayFilter();
  renderCells();
  renderAgents();
}

function renderConnection() {
  const pill = byId("connection");
  const open = state.stream?.readyState === EventSource.OPEN;
  const silence = Date.now() - state.heardAt;
  let now = "live";
  let text = "Live";
  if (!state.heardAt) [now, text] = ["loading", "Loading"];
  else if ((!open && state.pollFailed) || silence > SILENT_MS) [now, text] = ["lost", "Disconnected"];
  else if (!open || state.pollFailed) [now, text] = ["late", "Reconnecting"];
  if (pill.dataset.state !== now) pill.dataset.state = now;
  // The pill is read out when its text changes, so its running age stays in the title.
  setText(pill, text);
  pill.title = state.heardAt ? `heard from the server ${duration(silence / 1000)} ago` : "";
  byId("fleet").classList.toggle("lost", now === "lost");

  const banner = byId("banner");
  const warning = now === "lost"
    ? `The server does not answer. What you see is as of ${new Date(state.heardAt).toLocaleTimeString()}.`
    : state.partial || state.summary?.partial
      ? "Part of the reports is missing: a store does not answer. What you see may be old."
      : "";
  banner.hidden = !warning;
  setText(banner, warning);
}

function renderMeter(meter, legend, parts) {
  const shown = parts.filter(([, count]) => count > 0);
  const bars = new Map([...meter.children].map((bar) => [bar.dataset.kind, bar]));
  meter.replaceChildren(...shown.map(([kind, count]) => {
    const bar = bars.get(kind) ?? element("i", { "data-kind": kind });
    bar.style.flexGrow = count;
    return bar;
  }));
  if (!legend) return;
  legend.replaceChildren(...parts.map(([kind, count]) =>
    element("li", { "data-zero": count ? null : "" }, mark(kind), element("b", {}, count.toLocaleString()), WORDS[kind])));
}

function renderTiles() {
  const summary = state.summary;
  if (!summary) return;
  const tile = byId("tile-incidents");
  tile.classList.toggle("alarm", summary.incidents > 0);
  tile.classList.toggle("calm", summary.incidents === 0 && summary.agents.live > 0);
  setText(byId("incidents"), summary.incidents.toLocaleString());
  setText(byId("incidents-sub"), summary.incidents
    ? "cells open or half-open somewhere"
    : summary.agents.live ? "every reported cell is closed" : "no agent reports");
  document.title = summary.incidents ? `(${summary.incidents}) Lanekeeper` : "Lanekeeper";
  const cells = summary.cells;
  renderMeter(byId("cells-meter"), byId("cells-legend"), [
    ["closed", cells.closed], ["half_open", cells.half_open], ["open", cells.open], ["unknown", cells.unknown],
  ]);
  const agents = summary.agents;
  renderMeter(byId("agents-meter"), byId("agents-legend"), [
    ["live", agents.live], ["draining", agents.draining], ["stale", agents.stale], ["gone", agents.gone],
  ]);
  setText(byId("gateways"), summary.gateways.toLocaleString());
  const behind = state.agents.filter((agent) => agent.state === "live" && !agent.converged).length;
  setText(byId("gateways-sub"), summary.gateways === 0 ? "none configured"
    : behind ? `${counted(behind, "agent is", "agents are")} behind` : "all live agents are up to date");
}

function renderGatewayFilter() {
  const select = byId("gateway-filter");
  const names = state.gateways.map((gateway) => gateway.name);
  const known = [...select.options].slice(1).map((option) => option.value);
  if (names.join("\n") === known.join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(
    element("option", { value: "" }, "all"),
    ...names.map((name) => element("option", { value: name }, name)),
  );
  select.value = names.includes(chosen) ? chosen : "";
  if (select.value !== chosen) follow();
}

const byName = new Intl.Collator(undefined, { numeric: true });
const DETAIL_ORDER = { open: 0, half_open: 1, closed: 2, stale: 3 };
const SEVERITY = { open: 0, half_open: 1, unknown: 2, closed: 3 };
const cellRows = new Map();

function renderCells() {
  const cells = [...state.cells.values()].sort((a, b) =>
    SEVERITY[a.state] - SEVERITY[b.state]
    || b.agents.open - a.agents.open
    || keyOf(a).localeCompare(keyOf(b)));
  const rows = [];
  for (const cell of cells) {
    const key = keyOf(cell);
    const row = cellRows.get(key) ?? new CellRow(key);
    cellRows.set(key, row);
    row.update(cell);
    rows.push(...row.nodes());
  }
  for (const key of cellRows.keys()) if (!state.cells.has(key)) cellRows.delete(key);
  placeRows(document.querySelector("#cells > tbody"), rows);
  document.querySelector("#cells > thead").hidden = rows.length === 0;
  renderCellsEmpty(rows.length === 0);
}

/** Puts rows into a table body, moving as little as possible: a moved row loses its focus. */
function placeRows(body, rows) {
  rows.forEach((row, index) => {
    if (body.children[index] !== row) body.insertBefore(row, body.children[index] ?? null);
  });
  while (body.children.length > rows.length) body.lastChild.remove();
}

function fill(box, key, ...children) {
  if (box.dataset.shows === key) return;
  box.dataset.shows = key;
  box.replaceChildren(...children);
}

const skeleton = () => [0, 1, 2].map(() => element("span", { class: "skeleton" }));

function renderCellsEmpty(empty) {
  const box = byId("cells-empty");
  if (!empty) return fill(box, "");
  if (!state.snapshot || !state.summary) return fill(box, "loading", ...skeleton());
  if (state.summary.gateways === 0) {
    return fill(box, "none",
      element("strong", {}, "No gateway is configured yet"),
      "Write a gateway document and apply it:",
      element("div", {}, element("code", {}, "lanekeeper apply -f gateway.yaml")));
  }
  if (state.summary.agents.live === 0) {
    return fill(box, "silent",
      element("strong", {}, "No agent reports"),
      "Nothing is known about any cell until one does.");
  }
  if (state.summary.cells.unknown > 0) {
    return fill(box, `unknown ${state.summary.cells.unknown}`,
      element("strong", {}, "No incident is reported"),
      `Nothing is known about ${counted(state.summary.cells.unknown, "cell", "cells")}: no agent reports on them.`);
  }
  return fill(box, "calm",
    element("strong", {}, "No incident"),
    "Every cell is closed, passing traffic, on every agent that reports.");
}

class CellRow {
  constructor(key) {
    this.key = key;
    this.open = false;
    this.stateCell = element("td", {});
    this.lane = element("td", {});
    this.meter = element("div", { class: "meter", "aria-hidden": "true" });
    this.spreadText = element("span", {});
    this.scope = element("span", { class: "tag" });
    this.spread = element("td", { class: "spread" }, this.spreadText, " ", this.scope, this.meter);
    this.cause = element("td", { "data-label": "Cause" });
    this.since = element("td", { class: "number", "data-label": "For" });
    this.probe = element("td", { class: "number", "data-label": "Next probe" });
    this.trips = element("td", { class: "number", "data-label": "Trips" });
    this.button = element("button", { type: "button", class: "quiet", "aria-expanded": "false" }, "▸");
    this.button.addEventListener("click", () => this.toggle());
    this.row = element("tr", {}, this.stateCell, this.lane, this.spread, this.cause, this.since,
      this.probe, this.trips, element("td", { class: "number" }, this.button));
    this.detailCell = element("td", { colSpan: 8 });
    this.detail = element("tr", { class: "detail" }, this.detailCell);
  }

  nodes() {
    return this.open ? [this.row, this.detail] : [this.row];
  }

  toggle() {
    this.open = !this.open;
    this.button.setAttribute("aria-expanded", String(this.open));
    setText(this.button, this.open ? "▾" : "▸");
    if (this.open) {
      this.detailCell.replaceChildren(...skeleton());
      this.loadDetail();
    }
    renderCells();
  }

  update(cell) {
    const changed = this.cell !== cell;
    this.cell = cell;
    if (changed) this.draw(cell);
    this.tick(cell);
    if (changed && this.open) this.loadDetail();
  }

  draw(cell) {
    this.stateCell.replaceChildren(chip(cell.state));
    this.lane.replaceChildren(
      element("div", { class: "lane" }, nameOf(cell)),
      element("div", { class: "small" }, `${cell.gateway}${cell.lane === null ? "" : ` · ${cell.provider}`}${cell.endpoint ? ` · ${cell.endpoint}` : ""}`),
    );
    const agents = cell.agents;
    renderMeter(this.meter, null, [
      ["open", agents.open], ["half_open", agents.half_open], ["closed", agents.closed], ["stale", agents.stale],
    ]);
    setText(this.spreadText, spreadText(agents));
    this.spread.title = `${agents.open} open, ${agents.half_open} half-open, ${agents.closed} closed, `
      + `${agents.parked} parked, ${agents.stale} stale`;
    this.scope.hidden = !cell.scope;
    setText(this.scope, { fleet: "fleet-wide", partial: "partial", local: "local" }[cell.scope] ?? "");
    this.scope.classList.toggle("strong", cell.scope === "fleet" && cell.state === "open");
    this.cause.replaceChildren(element("div", {}, ...causeNodes(cell)));
    setText(this.trips, cell.trips.toLocaleString());
    this.trips.title = cell.flaps ? `${counted(cell.flaps, "flap", "flaps")} since it was last closed` : "";
    this.button.setAttribute("aria-label", `Agents of ${nameOf(cell)}`);
  }

  tick(cell) {
    const passed = (Date.now() - cell.at) / 1000;
    const since = cell.opened_for_secs === null ? null : cell.opened_for_secs + passed;
    setText(this.since, duration(since));
    this.since.title = since === null ? "" : `since ${clockTime(since)}`;
    const probe = cell.next_probe_in_secs === null ? null : cell.next_probe_in_secs - passed;
    setText(this.probe, probe === null ? "–" : probe <= 0 ? "due" : `in ${duration(probe)}`);
  }

  async loadDetail() {
    const { gateway, pool, lane, provider } = this.cell;
    const which = lane === null ? { provider } : { pool, lane };
    const query = new URLSearchParams({ gateway, ...which, include: "closed", detail: "agents" });
    try {
      const view = await get(`/api/v1/breaker-state?${query}`);
      const found = view.cells.find((cell) => keyOf(cell) === this.key);
      this.detailCell.replaceChildren(detailTable(found?.by_agent ?? []));
    } catch (error) {
      if (error instanceof SignedOut) return showSignIn("The session has ended.");
      this.detailCell.replaceChildren(element("p", { class: "problem" }, error.message));
    }
  }
}

function spreadText(agents) {
  const total = agents.reporting;
  if (agents.open) return `open on ${agents.open} of ${total}`;
  if (agents.half_open) return `half-open on ${agents.half_open} of ${total}`;
  if (agents.parked) return `parked on ${agents.parked} of ${total}`;
  if (total === 0) return counted(agents.stale, "agent is stale", "agents are stale");
  return `closed on ${agents.closed} of ${total}`;
}

function causeNodes(cell) {
  const nodes = [];
  if (cell.cause) {
    const { kind, status, count } = cell.cause;
    nodes.push(
      element("div", {}, status === null ? kind.replaceAll("_", " ") : `${kind.replaceAll("_", " ")} ${status}`),
      element("div", { class: "small" }, counted(count, "time", "times")),
    );
  }
  if (cell.override) {
    nodes.push(element("span", { class: "tag warn" }, cell.override.action.replaceAll("_", " ")));
  }
  if (cell.advisory?.active) nodes.push(element("span", { class: "tag" }, "advised"));
  return nodes.length ? nodes : [element("span", { class: "dim" }, "–")];
}

function detailTable(agents) {
  if (agents.length === 0) {
    return element("p", { class: "small" }, "Closed on every agent that reports.");
  }
  const head = ["Agent", "State", "For", "Next probe"].map((title) => element("th", { scope: "col" }, title));
  agents.sort((a, b) => DETAIL_ORDER[a.state] - DETAIL_ORDER[b.state] || byName.compare(a.agent, b.agent));
  return element("table", {},
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...agents.map((agent) => element("tr", {},
      element("td", { title: agent.instance }, agent.agent),
      element("td", {}, chip(agent.state)),
      element("td", { "data-label": "For", title: `since ${clockTime(agent.age_secs)}` }, duration(agent.age_secs)),
      element("td", { "data-label": "Next probe" },
        agent.state === "open" ? `in ${duration(agent.cooldown_remaining_secs)}` : "–")))));
}

// --- agents

const agentRows = new Map();

function renderAgents() {
  const chosen = byId("gateway-filter").value;
  const order = { live: 0, draining: 1, stale: 2, gone: 3 };
  const agents = state.agents
    .filter((agent) => !chosen || agent.gateway === chosen)
    .sort((a, b) => order[a.state] - order[b.state] || byName.compare(a.name, b.name));
  const ids = new Set(agents.map((agent) => agent.id));
  const rows = agents.map((agent) => {
    const row = agentRows.get(agent.id) ?? element("tr", {});
    agentRows.set(agent.id, row);
    drawAgent(row, agent);
    return row;
  });
  for (const id of agentRows.keys()) if (!ids.has(id)) agentRows.delete(id);
  placeRows(document.querySelector("#agents > tbody"), rows);
  document.querySelector("#agents > thead").hidden = rows.length === 0;

  const box = byId("agents-empty");
  if (rows.length) fill(box, "");
  else if (!state.summary) fill(box, "loading", ...skeleton());
  else {
    fill(box, "none",
      element("strong", {}, "No agent has joined"),
      "Start one and point it at the control plane:",
      element("div", {}, element("code", {}, "lanekeeper agent --control-plane URL --gateway NAME")));
  }
  const more = byId("agents-more");
  more.hidden = !state.moreAgents;
  setText(more, `The first ${AGENTS_SHOWN} are shown. All are in GET /api/v1/agents.`);
}

function drawAgent(row, agent) {
  const passed = (Date.now() - state.agentsAt) / 1000;
  const age = agent.last_report_age_secs === null ? null : agent.last_report_age_secs + passed;
  const labels = Object.entries(agent.labels).map(([name, value]) => `${name}=${value}`).join(" ");
  const revision = agent.applied_revision ? `${agent.applied_revision}` : "none";
  const behind = !agent.converged && agent.target_revision !== null;
  const troubles = [
    ...agent.problems,
    ...(agent.last_error ? [`refused revision ${agent.last_error.revision}: ${agent.last_error.errors.map((error) => error.message).join("; ")}`] : []),
  ];
  row.replaceChildren(
    element("td", {}, chip(agent.state)),
    element("td", { title: agent.instance },
      element("div", { class: "lane" }, agent.name),
      labels ? element("div", { class: "small" }, labels) : null,
      ...troubles.map((trouble) => element("div", { class: "problem" }, trouble))),
    element("td", { "data-label": "Gateway" }, agent.gateway),
    element("td", { "data-label": "Revision" },
      element("span", {}, revision,
        behind ? element("span", { class: "small" }, ` → ${agent.target_revision} `) : " ",
        agent.config_source === "live" ? null : element("span", { class: "tag warn" }, `from ${agent.config_source}`))),
    element("td", { "data-label": "Version", class: "dim" }, agent.version || "–"),
    element("td", { "data-label": "In flight", class: "number" }, agent.totals.inflight.toLocaleString()),
    element("td", { "data-label": "Requests", class: "number" }, agent.totals.requests.toLocaleString()),
    element("td", { "data-label": "Last report", class: "number", title: age === null ? null : clockTime(age) },
      age === null ? "never" : `${duration(age)} ago`),
  );
}

// --- start

setInterval(() => { watch(); render(); }, 1000);

async function start() {
  const link = new URLSearchParams(location.search).get("token");
  if (link !== null) {
    // The link's token must not stay in the address bar or the history.
    history.replaceState(null, "", location.pathname);
    try {
      showFleet(await signIn(link));
    } catch (error) {
      showSignIn(error instanceof TypeError ? "The server does not answer." : error.message);
    }
    return;
  }
  try {
    showFleet(await get("/session"));
  } catch (error) {
    showSignIn(error instanceof SignedOut ? "" : "The server does not answer.");
  }
}

start();
