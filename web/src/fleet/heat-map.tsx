// The matrix on a canvas: half a million places are drawn in a few milliseconds, and read by pointer,
// by arrow keys, or as a table.

import { Button, Group, Text, useComputedColorScheme } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, type PointerEvent, useEffect, useMemo, useRef, useState } from "react";
import { keyOf, nameOf } from "../live/cell";
import { HEAT, HEAT_WORDS, type Matrix, patterns } from "./heat";

/** Sizes of a place, pixels. */
const WIDTH_MAX = 64;
/** From here on a column carries its agent's name. */
const WIDTH_NAMED = 44;
const HEAD_HEIGHT = 18;
const WIDTH_MIN = 2;
const HEIGHT_MAX = 18;
const HEIGHT_MIN = 3;
const LABEL_WIDTH = 190;
/** Height the whole map aims at, pixels; a large one scrolls. */
const MAP_HEIGHT = 420;
/** Rows of the table behind the map. */
const TABLE_ROWS_MAX = 500;

const COLOURS = ["--heat-none", "--heat-closed", "--heat-half-open", "--heat-open", "--heat-stale", "--heat-unusable"];

interface Place {
  row: number;
  column: number;
}

export function HeatMap({ matrix, cut }: { matrix: Matrix; cut: boolean }) {
  const [asTable, setAsTable] = useState(false);
  const said = useMemo(() => patterns(matrix), [matrix]);
  return (
    <div>
      <div aria-live="polite">
        {said.map((text) => <Text key={text} fw={600} size="sm" mb={6}>{text}</Text>)}
      </div>
      {asTable ? <PlacesTable matrix={matrix} /> : <Canvas matrix={matrix} />}
      <Group justify="space-between" mt="sm" gap="sm">
        <ul className="legend" style={{ margin: 0 }}>
          {[HEAT.open, HEAT.half_open, HEAT.unusable, HEAT.closed, HEAT.stale, HEAT.none].map((state) => (
            <li key={state}><span className="swatch" style={{ background: `var(${COLOURS[state] ?? ""})` }} aria-hidden="true" />{HEAT_WORDS[state]}</li>
          ))}
        </ul>
        <Button variant="subtle" size="compact-sm" onClick={() => setAsTable(!asTable)}>{asTable ? "Show the map" : "Show as a table"}</Button>
      </Group>
      {cut && <Text size="sm" c="dimmed" mt={6}>The map shows the first {matrix.columns.length} agents and all that refuse something; counts elsewhere are of all.</Text>}
    </div>
  );
}

function Canvas({ matrix }: { matrix: Matrix }) {
  const { rows, columns, places } = matrix;
  const { ref: boxRef, width: boxWidth } = useElementSize();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [at, setAt] = useState<Place | null>(null);
  const scheme = useComputedColorScheme("light");
  const navigate = useNavigate();
  const height = Math.max(HEIGHT_MIN, Math.min(HEIGHT_MAX, Math.floor(MAP_HEIGHT / Math.max(1, rows.length))));
  const labels = height >= 12;
  const left = labels ? Math.min(LABEL_WIDTH, boxWidth * 0.4) : 0;
  const room = Math.max(0, boxWidth - left);
  const top = room / Math.max(1, columns.length) >= WIDTH_NAMED ? HEAD_HEIGHT : 0;
  const width = Math.max(WIDTH_MIN, Math.min(WIDTH_MAX, Math.floor(room / Math.max(1, columns.length))));

  useEffect(() => {
    const target = canvas.current;
    const context = target?.getContext("2d");
    if (!target || !context || boxWidth === 0) return;
    const scale = Math.min(window.devicePixelRatio || 1, 2);
    const size = { x: left + width * columns.length, y: top + height * rows.length };
    target.width = size.x * scale;
    target.height = size.y * scale;
    target.style.width = `${size.x}px`;
    target.style.height = `${size.y}px`;
    context.scale(scale, scale);
    const style = getComputedStyle(target);
    // light-dark() is resolved by the browser for colour properties only, so a probe is asked.
    const colours = COLOURS.map((name) => resolve(target, name));
    const gap = width >= 6 ? 1 : 0;
    const rowGap = height >= 6 ? 1 : 0;
    // One pass for each colour: changing it costs more than drawing.
    colours.forEach((colour, state) => {
      context.fillStyle = colour;
      for (let row = 0; row < rows.length; row += 1) {
        let column = 0;
        while (column < columns.length) {
          if (places[row * columns.length + column] !== state) {
            column += 1;
            continue;
          }
          const start = column;
          while (column < columns.length && places[row * columns.length + column] === state && (gap === 0 || column === start)) column += 1;
          context.fillRect(left + start * width, top + row * height, (column - start) * width - gap, height - rowGap);
        }
      }
    });
    if (labels) {
      context.fillStyle = style.color;
      context.font = `12px ${style.fontFamily}`;
      context.textBaseline = "middle";
      rows.forEach((cell, row) => context.fillText(fitted(context, nameOf(cell), left - 10), 0, top + row * height + height / 2));
      if (top > 0) columns.forEach((column, place) => context.fillText(fitted(context, column.name, width - 6), left + place * width, top / 2));
    }
    if (at) {
      context.strokeStyle = style.color;
      context.lineWidth = 2;
      context.strokeRect(left + at.column * width, top + at.row * height, Math.max(width, 4), Math.max(height, 4));
    }
  }, [matrix, rows, columns, places, boxWidth, width, height, left, top, labels, at, scheme]);

  const placeOf = (event: PointerEvent): Place | null => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box) return null;
    const column = Math.floor((event.clientX - box.left - left) / width);
    const row = Math.floor((event.clientY - box.top - top) / height);
    return column >= 0 && row >= 0 && column < columns.length && row < rows.length ? { row, column } : null;
  };
  const step = (event: KeyboardEvent): void => {
    const moves: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (move) {
      event.preventDefault();
      const from = at ?? { row: 0, column: 0 };
      const within = (value: number, count: number) => Math.max(0, Math.min(count - 1, value));
      setAt(at ? { row: within(from.row + move[0], rows.length), column: within(from.column + move[1], columns.length) } : from);
    } else if (event.key === "Enter") open(at);
    else if (event.key === "Escape") setAt(null);
  };
  const open = (place: Place | null): void => {
    const cell = place && rows[place.row];
    if (cell) void navigate({ to: "/lanes", search: { gateway: cell.gateway, cell: keyOf(cell) } });
  };
  const cell = at && rows[at.row];
  const agent = at && columns[at.column];
  const state = at ? places[at.row * columns.length + at.column] : undefined;
  return (
    <>
      <div
        ref={boxRef} className="heat-box" role="application" tabIndex={0}
        aria-label={`Heat map of ${rows.length} lanes on ${columns.length} agents. Arrow keys move, Enter opens the lane.`}
        onKeyDown={step}
      >
        <canvas
          ref={canvas} data-rows={rows.length} data-columns={columns.length}
          onPointerMove={(event) => setAt(placeOf(event))} onPointerLeave={() => setAt(null)} onClick={() => open(at)}
        />
      </div>
      <Text size="sm" mt={6} mih={22} aria-live="polite" style={{ overflowWrap: "anywhere" }}>
        {cell && agent ? <><b>{agent.name}</b> · {nameOf(cell)} · {HEAT_WORDS[state ?? 0]}</> : <span className="small">Rows are lanes, columns are agents: a red row is the provider, a red column is one agent.</span>}
      </Text>
    </>
  );
}

function resolve(near: HTMLElement, name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  near.parentElement?.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return `${text.slice(0, end)}…`;
}

/** Every place that is not closed, as a table. */
function PlacesTable({ matrix: { rows, columns, places } }: { matrix: Matrix }) {
  const found: { key: string; lane: string; agent: string; state: string }[] = [];
  let more = 0;
  rows.forEach((cell, row) => columns.forEach((column, place) => {
    const state = places[row * columns.length + place] ?? HEAT.none;
    if (state === HEAT.closed || state === HEAT.none) return;
    if (found.length >= TABLE_ROWS_MAX) more += 1;
    else found.push({ key: `${keyOf(cell)} ${column.instance}`, lane: nameOf(cell), agent: column.name, state: HEAT_WORDS[state] ?? "" });
  }));
  if (found.length === 0) return <Text size="sm">Every lane is closed on every agent that reports.</Text>;
  return (
    <div className="heat-box" tabIndex={0} role="region" aria-label="Lanes that are not closed, by agent">
      <table style={{ width: "100%", borderSpacing: "0 4px", textAlign: "start" }}>
        <thead><tr>{["Lane", "Agent", "State"].map((title) => <th key={title} scope="col" style={{ textAlign: "start" }}>{title}</th>)}</tr></thead>
        <tbody>{found.map((place) => <tr key={place.key}><td>{place.lane}</td><td>{place.agent}</td><td>{place.state}</td></tr>)}</tbody>
      </table>
      {more > 0 && <Text size="sm" c="dimmed">{more} more are not listed here; the agents' pages have them.</Text>}
    </div>
  );
}
