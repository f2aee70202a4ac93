// A gateway's document, or one pool of it, as text: errors at the field as one types, a diff before the
// save, and the revision on its way afterwards.

import { Alert, Button, Group, List, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";
import { api, answered, idempotencyKey, Problem, type Schemas } from "../api/client";
import { type Document, poolSchema, useDocument, useSchema } from "../api/config";
import { PageTitle } from "../app/shell";
import { useMay } from "../app/session";
import { DiffView } from "../editor/diff-view";
import { asYaml, parse } from "../editor/places";
import { type Checked, YamlEditor } from "../editor/yaml-editor";
import { Empty, Failed, Loading } from "../parts/states";
import { counted } from "../parts/words";

/** Bytes of a document that an editor of a page is made for. Larger ones are for `lanekeeper apply`. */
const EDITABLE_BYTES_MAX = 2 * 1024 * 1024;
const FAULTS_SHOWN = 8;

const route = getRouteApi("/gateways/$gateway/edit");

export function EditPage() {
  const { gateway } = route.useParams();
  const { pool } = route.useSearch();
  const document = useDocument(gateway);
  const schema = useSchema();
  const [from, setFrom] = useState<{ data: Document; etag: string } | null>(null);
  const title = pool === undefined ? `Edit ${gateway}` : `Edit pool ${pool}`;
  if (document.isPending || schema.isPending) return <><PageTitle title={title} /><Loading rows={8} /></>;
  if (document.isError) return <><PageTitle title={title} /><Failed error={document.error} retry={() => void document.refetch()} /></>;
  // What one began with stays, however often the newest is read meanwhile.
  const base = from ?? document.data;
  if (from === null) setFrom(document.data);
  const subject = pool === undefined ? base.data : base.data.pools?.[pool];
  if (subject === undefined) return <><PageTitle title={title} /><Empty title="The document has no such pool"><Link to="/pools" search={{ gateway }}>All pools of {gateway}</Link></Empty></>;
  return (
    <>
      <PageTitle title={title} />
      <Editing
        key={base.etag} gateway={gateway} pool={pool} base={base} text={asYaml(subject)} newest={document.data.etag}
        schema={pool === undefined ? schema.data : poolSchema(schema.data)} takeNewest={() => setFrom(document.data)}
      />
    </>
  );
}

interface EditingProps {
  gateway: string;
  pool: string | undefined;
  base: { data: Document; etag: string };
  /** The text as it was. */
  text: string;
  newest: string;
  schema: object | undefined;
  takeNewest: () => void;
}

function Editing({ gateway, pool, base, text, newest, schema, takeNewest }: EditingProps) {
  const { may, why } = useMay("admin");
  const [checked, setChecked] = useState<Checked | null>(null);
  const [reviewing, setReviewing] = useState(false);
  const whole = useCallback((value: unknown): Document => (pool === undefined ? (value as Document) : withPool(base.data, pool, value)), [base, pool]);
  const prefix = pool === undefined ? "" : `/pools/${pool.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  const check = useCallback(
    async (value: unknown, signal: AbortSignal): Promise<Schemas["Fault"][]> => {
      const verdict = await answered(api.POST("/admin/v1/gateways/{gateway}/config/validate", { params: { path: { gateway } }, body: whole(value), signal }));
      return verdict.errors.map((fault) => ({ ...fault, pointer: within(fault.pointer ?? "", prefix) }));
    },
    [gateway, whole, prefix],
  );
  if (text.length > EDITABLE_BYTES_MAX) {
    return <Empty title="The document is too large for this page">It has {Math.round(text.length / 1024)} kB. Use <code>lanekeeper get config {gateway}</code> and <code>lanekeeper apply</code>.</Empty>;
  }
  const changed = checked !== null && checked.value !== undefined && checked.text !== text;
  const clean = changed && checked.faults.length === 0;
  return (
    <Stack gap="md">
      {newest !== base.etag && (
        <Alert color="yellow" variant="outline" title="Somebody else wrote a newer revision" role="status">
          A save from here would be refused. <Button size="compact-sm" variant="default" onClick={takeNewest}>Begin with the newest, dropping this text</Button>
        </Alert>
      )}
      {!may && <Text size="sm" c="dimmed">{why}</Text>}
      {/* Hidden rather than gone while one reviews: its text and history stay. */}
      <div hidden={reviewing}>
        <YamlEditor initial={text} schema={schema} label={pool === undefined ? `Document of ${gateway}` : `Pool ${pool}`} readOnly={!may} check={check} onChecked={setChecked} onEdited={() => setChecked(null)} />
        <Group justify="space-between" mt="sm" align="start">
          <div role="status" data-testid="check">
            {checked === null ? <Text size="sm" c="dimmed">Checking…</Text> : checked.faults.length === 0 ? <Text size="sm">{changed ? "No errors." : "No changes."}</Text> : (
              <>
                <Text size="sm" fw={600} c="var(--open)">{counted(checked.faults.length, "error")}</Text>
                <List size="sm">{checked.faults.slice(0, FAULTS_SHOWN).map((fault) => <List.Item key={fault} style={{ overflowWrap: "anywhere" }}>{fault}</List.Item>)}</List>
              </>
            )}
          </div>
          <Button disabled={!clean || !may} onClick={() => setReviewing(true)}>Review the change</Button>
        </Group>
      </div>
      {reviewing && checked && <Review gateway={gateway} before={text} after={checked.text} document={whole(checked.value)} etag={base.etag} back={() => setReviewing(false)} />}
    </Stack>
  );
}

function Review({ gateway, before, after, document, etag, back }: { gateway: string; before: string; after: string; document: Document; etag: string; back: () => void }) {
  const [message, setMessage] = useState("");
  const [key] = useState(idempotencyKey);
  const client = useQueryClient();
  const navigate = useNavigate();
  const [allowEmpty, setAllowEmpty] = useState(false);
  const normal = useMemo(() => [asYaml(parse(before).value), asYaml(parse(after).value)] as const, [before, after]);
  const save = useMutation({
    mutationFn: () =>
      answered(api.PUT("/admin/v1/gateways/{gateway}/config", {
        params: { path: { gateway }, header: { "If-Match": etag, "Idempotency-Key": key + String(allowEmpty) }, query: { ...(message.trim() ? { message: message.trim() } : {}), ...(allowEmpty ? { allow_empty: true } : {}) } },
        body: document,
      })),
    onSuccess: async (written) => {
      await client.invalidateQueries();
      await navigate({ to: "/rollouts", search: { gateway, saved: String(written.revision) } });
    },
  });
  const empties = save.error instanceof Problem && save.error.code === "empty_gateway";
  return (
    <Stack gap="md">
      <DiffView before={normal[0]} after={normal[1]} labels={["Now", "After the save"]} />
      <TextInput label="Message" description="Shown with the revision" maxLength={500} value={message} onChange={(event) => setMessage(event.currentTarget.value)} data-autofocus />
      {save.error && <Failed title="Not saved" error={save.error} />}
      <Group justify="flex-end">
        <Button variant="default" onClick={back}>Back to the text</Button>
        {empties && !allowEmpty ? <Button color="red" onClick={() => { setAllowEmpty(true); save.reset(); }}>Save it even so: every call will fail</Button> : <Button loading={save.isPending} onClick={() => save.mutate()}>Save as a new revision</Button>}
      </Group>
    </Stack>
  );
}

const withPool = (document: Document, pool: string, value: unknown): Document => ({ ...document, pools: { ...document.pools, [pool]: value as Schemas["Pool"] } });

/** A pointer into the document as one into the edited part; what is elsewhere is at its top. */
function within(pointer: string, prefix: string): string {
  return pointer.startsWith(prefix) ? pointer.slice(prefix.length) : "";
}
