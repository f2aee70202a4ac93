// A YAML editor that knows the schema of gateway documents: completion, descriptions, and the server's
// own errors at the field as one types.

import { autocompletion } from "@codemirror/autocomplete";
import { yamlLanguage, yaml } from "@codemirror/lang-yaml";
import { type Diagnostic, linter, lintGutter } from "@codemirror/lint";
import { syntaxHighlighting } from "@codemirror/language";
import { EditorState, type Extension } from "@codemirror/state";
import { hoverTooltip } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { basicSetup, EditorView } from "codemirror";
import { stateExtensions } from "codemirror-json-schema";
import { yamlCompletion, yamlSchemaHover } from "codemirror-json-schema/yaml";
import { useEffect, useRef } from "react";
import type { Schemas } from "../api/client";
import { styleNonce } from "../app/nonce";
import { parse, placeOf } from "./places";

/** Pause after the last key before the server is asked, ms. */
const CHECK_DELAY_MS = 350;

export type Check = (value: unknown, signal: AbortSignal) => Promise<Schemas["Fault"][]>;
export interface Checked {
  text: string;
  /** What the text says; undefined when it is not YAML. */
  value: unknown;
  /** Everything that is wrong with it. */
  faults: string[];
}

interface Props {
  initial: string;
  schema: object | undefined;
  label: string;
  readOnly: boolean;
  /** Asks the server what is wrong; its pointers are into the value of the text. */
  check: Check;
  /** Called when a text was checked. */
  onChecked: (checked: Checked) => void;
  /** Called at each change, before the check. */
  onEdited: () => void;
}

export function YamlEditor(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  useEffect(() => {
    latest.current = props;
  });
  const { initial, schema, readOnly, label } = props;
  useEffect(() => {
    const parent = box.current;
    if (!parent) return;
    const aborter = new AbortController();
    const view = new EditorView({
      parent,
      state: EditorState.create({
        doc: initial,
        extensions: [
          EditorView.cspNonce.of(styleNonce()),
          EditorView.contentAttributes.of({ "aria-label": label }),
          basicSetup,
          yaml(),
          syntaxHighlighting(classHighlighter),
          schema ? aware(schema) : [],
          linter(async (each) => diagnose(each, latest.current, aborter.signal), { delay: CHECK_DELAY_MS }),
          lintGutter(),
          EditorState.readOnly.of(readOnly),
          EditorView.lineWrapping,
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.onEdited();
          }),
        ],
      }),
    });
    return () => {
      aborter.abort();
      view.destroy();
    };
  }, [initial, schema, readOnly, label]);
  return <div ref={box} />;
}

function aware(schema: object): Extension {
  return [
    stateExtensions(schema),
    yamlLanguage.data.of({ autocomplete: yamlCompletion() }),
    hoverTooltip(yamlSchemaHover({ formatHover: described })),
    autocompletion(),
  ];
}

/** A field's description as plain text: nothing of it is read as markup. */
function described({ message, typeInfo }: { message: string | null; typeInfo: string }): HTMLElement {
  const box = document.createElement("div");
  box.className = "field-help";
  box.append(message ?? "", message ? document.createElement("br") : "", typeInfo);
  return box;
}

async function diagnose(view: EditorView, props: Props, signal: AbortSignal): Promise<Diagnostic[]> {
  const text = view.state.doc.toString();
  const parsed = parse(text);
  const { value, mistakes } = parsed;
  const end = text.length;
  const mark = (from: number, to: number, message: string): Diagnostic => ({ from: Math.min(from, end), to: Math.min(Math.max(to, from), end), message, severity: "error" });
  if (mistakes.length > 0) {
    props.onChecked({ text, value: undefined, faults: mistakes.map((each) => each.message) });
    return mistakes.map((each) => mark(each.from, each.to, each.message));
  }
  try {
    const faults = await props.check(value, signal);
    props.onChecked({ text, value, faults: faults.map((fault) => `${fault.pointer ?? ""}: ${fault.message}`) });
    return faults.map((fault) => {
      const { from, to } = placeOf(parsed, fault.pointer ?? "");
      return mark(from, to, fault.message);
    });
  } catch (error) {
    if (signal.aborted) return [];
    props.onChecked({ text, value, faults: [error instanceof Error ? error.message : "The check failed."] });
    return [];
  }
}
