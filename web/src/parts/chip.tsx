// How states look everywhere: a colour, a shape for those who see no colour, and the word.

const SHAPES: Record<string, string> = {
  closed: "●", half_open: "◐", open: "✕", unknown: "?", parked: "‖",
  live: "●", draining: "◐", stale: "◌", gone: "–",
  running: "▶", paused: "‖", stopped: "✕", done: "✓", rolled_back: "↩", superseded: "–", waiting: "◌", current: "▶",
  applied: "✓", pending: "◌", override: "⚑", active: "⚑", rejected: "✕", calm: "●", failing: "✕", degraded: "◐",
};
const WORDS: Record<string, string> = { half_open: "half-open", rolled_back: "rolled back" };

export const stateWord = (kind: string): string => WORDS[kind] ?? kind.replaceAll("_", " ");

export function Mark({ kind }: { kind: string }) {
  return <span aria-hidden="true">{SHAPES[kind] ?? "•"}</span>;
}

export function Chip({ kind, children }: { kind: string; children?: React.ReactNode }) {
  return (
    <span className="chip" data-kind={kind}>
      <Mark kind={kind} />
      {children ?? stateWord(kind)}
    </span>
  );
}

/** A bar of shares, with the numbers beside it for whoever reads them. */
export function Meter({ parts, legend = true }: { parts: readonly (readonly [kind: string, count: number])[]; legend?: boolean }) {
  return (
    <>
      <div className="meter" aria-hidden="true">
        {parts.filter(([, count]) => count > 0).map(([kind, count]) => <i key={kind} data-kind={kind} style={{ flexGrow: count }} />)}
      </div>
      {legend && (
        <ul className="legend">
          {parts.map(([kind, count]) => (
            <li key={kind} className={count ? undefined : "zero"}>
              <b className="number">{count.toLocaleString("en")}</b>
              {stateWord(kind)}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
