// Where in a YAML text a JSON pointer is, and what the text says as JSON.

import { type Document, isMap, isPair, isScalar, isSeq, LineCounter, type Node, parseDocument, stringify } from "yaml";

export interface Mistake {
  from: number;
  to: number;
  message: string;
}

/** Most aliases that a text may use: more is an attack on its reader. */
const ALIASES_MAX = 50;

export interface Parsed {
  text: string;
  value: unknown;
  mistakes: Mistake[];
  document: Document;
}

/** Reads a YAML text; with mistakes its value is undefined. */
export function parse(text: string): Parsed {
  const document = parseDocument(text, { lineCounter: new LineCounter(), uniqueKeys: true, prettyErrors: false });
  const mistakes = document.errors.map((error) => ({ from: error.pos[0], to: Math.max(error.pos[1], error.pos[0] + 1), message: error.message }));
  if (mistakes.length > 0) return { text, value: undefined, mistakes, document };
  try {
    return { text, value: document.toJS({ maxAliasCount: ALIASES_MAX }), mistakes, document };
  } catch (error) {
    return { text, value: undefined, mistakes: [{ from: 0, to: 1, message: error instanceof Error ? error.message : "cannot be read" }], document };
  }
}

/** The range of the value at a pointer, or of the nearest thing around it that is there. */
export function placeOf({ text, document }: Parsed, pointer: string): { from: number; to: number } {
  let node: unknown = document.contents;
  let range = rangeOf(node) ?? { from: 0, to: 1 };
  for (const raw of pointer.split("/").slice(1)) {
    const step = raw.replaceAll("~1", "/").replaceAll("~0", "~");
    let next: unknown;
    if (isMap(node)) {
      const pair = node.items.find((item) => isPair(item) && isScalar(item.key) && String(item.key.value) === step);
      // The key marks a field better than a value of fifty lines.
      range = rangeOf(pair?.key) ?? firstLine(text, range);
      next = pair?.value;
      if (isScalar(next)) range = rangeOf(next) ?? range;
    } else if (isSeq(node)) {
      next = node.items[Number(step)];
      range = firstLine(text, rangeOf(next) ?? range);
    }
    if (next === undefined) break;
    node = next;
  }
  return range;
}

function rangeOf(node: unknown): { from: number; to: number } | null {
  const range = (node as Node | null | undefined)?.range;
  return range ? { from: range[0], to: Math.max(range[1], range[0] + 1) } : null;
}

function firstLine(text: string, range: { from: number; to: number }): { from: number; to: number } {
  const end = text.indexOf("\n", range.from);
  return { from: range.from, to: end < 0 ? range.to : Math.max(range.from + 1, Math.min(range.to, end)) };
}

/** A value of the API as the text that people edit. */
export const asYaml = (value: unknown): string => stringify(value, { lineWidth: 110 });
