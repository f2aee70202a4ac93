// Times are ages with the clock time on hover. One clock for the whole page.

import { useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
let now = Date.now();
let timer = 0;

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (!timer) {
    timer = window.setInterval(() => {
      now = Date.now();
      for (const each of listeners) each();
    }, 1000);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      window.clearInterval(timer);
      timer = 0;
    }
  };
}

/** The time, ms, renewed each second. */
export const useNow = (): number => useSyncExternalStore(subscribe, () => now);

/** A duration in the two largest units that matter. */
export function duration(secs: number): string {
  const whole = Math.max(0, Math.round(secs));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor((whole % 86_400) / 3600)} h`;
}

/** A moment, ms, as its age. */
export function Age({ at, suffix = "ago" }: { at: number; suffix?: string }) {
  const passed = (useNow() - at) / 1000;
  const moment = new Date(at);
  return (
    <time dateTime={moment.toISOString()} title={moment.toLocaleString()} className="number">
      {duration(passed)}
      {suffix && ` ${suffix}`}
    </time>
  );
}

/** A moment to come, ms, as the time that is left. */
export function Left({ at, over }: { at: number; over: string }) {
  const left = (at - useNow()) / 1000;
  const moment = new Date(at);
  return (
    <time dateTime={moment.toISOString()} title={moment.toLocaleString()} className="number">
      {left <= 0 ? over : `in ${duration(left)}`}
    </time>
  );
}
