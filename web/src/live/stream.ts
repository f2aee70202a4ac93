// Follows the fleet's breakers by server-sent events and keeps them as one value. However many
// events come, the screen learns of them at most once a frame.

import { useSyncExternalStore } from "react";
import type { Schemas } from "../api/client";
import { type CellState, keyOf } from "./cell";

// The stream's heartbeat comes each 10 s. After two and a half without one it is dead, whatever the
// browser thinks of the connection.
const HEARTBEAT_MS = 10000;
const SILENT_MS = 2.5 * HEARTBEAT_MS;
/** Pause before a refused stream is opened again. */
const RETRY_MS = 1500;
/** Pause between two updates of a page that nobody sees. */
const HIDDEN_MS = 250;
/** A stream that is not open for this long is shown as lost. */
const LOST_MS = 4000;

/** `late`: the stream is being opened again; `lost`: what is shown is old. */
export type Phase = "loading" | "live" | "late" | "lost";

export interface Live {
  phase: Phase;
  /** When the server last said anything, ms; 0 = never. */
  heardAt: number;
  /** Part of the reports is missing. */
  partial: boolean;
  cells: ReadonlyMap<string, CellState>;
  agents: Schemas["FleetAgents"];
  /** Grows with each change of the cells. */
  version: number;
}

const NOTHING: Live = {
  phase: "loading",
  heardAt: 0,
  partial: false,
  cells: new Map(),
  agents: { live: 0, stale: 0 },
  version: 0,
};

/** A follower of one stream. Time is asked of the browser only here. */
export class LiveStream {
  private shown: Live = NOTHING;
  private cells = new Map<string, CellState>();
  private source: EventSource | null = null;
  private listeners = new Set<() => void>();
  private frame = 0;
  private clock = 0;
  private retry = 0;
  private downSince = 0;

  constructor(private readonly open: (url: string) => EventSource = (url) => new EventSource(url)) {}

  start(): void {
    if (this.source) return;
    this.connect();
    this.clock = window.setInterval(() => this.watch(), 1000);
    document.addEventListener("visibilitychange", this.onVisible);
  }

  stop(): void {
    this.source?.close();
    this.source = null;
    window.clearInterval(this.clock);
    window.clearTimeout(this.retry);
    document.removeEventListener("visibilitychange", this.onVisible);
    this.cells = new Map();
    this.shown = NOTHING;
  }

  read = (): Live => this.shown;

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  private onVisible = (): void => {
    if (!document.hidden) this.watch();
  };

  private connect(): void {
    this.source?.close();
    const source = this.open("/api/v1/breaker-state/stream?include=closed");
    this.source = source;
    if (!this.downSince) this.downSince = Date.now();
    const data = (event: Event): unknown => JSON.parse((event as MessageEvent<string>).data);
    source.addEventListener("open", () => this.alive());
    source.addEventListener("heartbeat", () => this.alive());
    source.addEventListener("snapshot", (event) => {
      const view = data(event) as Schemas["FleetView"];
      this.cells = new Map();
      this.take(view.cells);
      this.tell(view);
    });
    source.addEventListener("change", (event) => {
      const change = data(event) as Schemas["Change"];
      this.take(change.cells);
      for (const cell of change.gone) this.cells.delete(keyOf(cell));
      this.tell(change);
    });
    source.addEventListener("error", () => {
      if (source !== this.source) return;
      if (!this.downSince) this.downSince = Date.now();
      this.update({ phase: this.shown.heardAt ? "late" : "loading" });
      // The browser tries again by itself unless the answer was an error status.
      if (source.readyState === EventSource.CLOSED) {
        window.clearTimeout(this.retry);
        this.retry = window.setTimeout(() => {
          if (source === this.source) this.connect();
        }, RETRY_MS);
      }
    });
  }

  private take(cells: Schemas["CellView"][]): void {
    const at = Date.now();
    for (const cell of cells) this.cells.set(keyOf(cell), { ...cell, at });
  }

  private alive(): void {
    this.downSince = 0;
    this.update({ phase: this.shown.version ? "live" : "loading", heardAt: Date.now() });
  }

  private tell(view: Pick<Schemas["FleetView"], "partial" | "agents">): void {
    this.downSince = 0;
    this.update({
      phase: "live",
      heardAt: Date.now(),
      partial: view.partial,
      agents: view.agents,
      version: this.shown.version + 1,
    });
  }

  /** Gives up a stream that has gone silent: a frozen server closes no connection. */
  private watch(): void {
    const now = Date.now();
    if (this.source && this.shown.heardAt && now - this.shown.heardAt > SILENT_MS) {
      this.update({ phase: "lost" });
      this.connect();
    } else if (this.downSince && now - this.downSince > LOST_MS) {
      this.update({ phase: "lost" });
    }
  }

  private update(change: Partial<Live>): void {
    this.shown = { ...this.shown, ...change };
    if (this.frame) return;
    // A hidden page draws no frames, and must not keep the events of an hour in a queue.
    const show = (): void => {
      this.frame = 0;
      this.shown = { ...this.shown, cells: new Map(this.cells) };
      for (const listener of this.listeners) listener();
    };
    this.frame = document.hidden ? window.setTimeout(show, HIDDEN_MS) : window.requestAnimationFrame(show);
  }
}

export const live = new LiveStream();

export const useLive = (): Live => useSyncExternalStore(live.subscribe, live.read);
