import { MergeView } from "@codemirror/merge";
import { yaml } from "@codemirror/lang-yaml";
import { syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { classHighlighter } from "@lezer/highlight";
import { basicSetup, EditorView } from "codemirror";
import { useEffect, useRef } from "react";
import { styleNonce } from "../app/nonce";

/** Two texts side by side, what differs marked and the rest folded. */
export function DiffView({ before, after, labels }: { before: string; after: string; labels: [string, string] }) {
  const box = useRef<HTMLDivElement>(null);
  const [left, right] = labels;
  useEffect(() => {
    const parent = box.current;
    if (!parent) return;
    const side = (doc: string, label: string) => ({
      doc,
      extensions: [
        EditorView.cspNonce.of(styleNonce()), basicSetup, yaml(), syntaxHighlighting(classHighlighter), EditorState.readOnly.of(true), EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": label }),
      ],
    });
    const view = new MergeView({ parent, a: side(before, left), b: side(after, right), collapseUnchanged: { margin: 3, minSize: 6 }, gutter: true });
    return () => view.destroy();
  }, [before, after, left, right]);
  return (
    <div>
      <div style={{ display: "grid", gridTemplateColumns: "1fr 1fr", gap: 8 }} className="small"><span>{left}</span><span>{right}</span></div>
      <div ref={box} className="wide" />
    </div>
  );
}
