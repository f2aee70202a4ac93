import { Alert, Button, Group, NativeSelect, Stack, Table, Tabs, Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { api, answered, idempotencyKey, type Schemas } from "../api/client";
import { useRevision, useRevisions, useRollouts } from "../api/config";
import { useAgentsOf, useGateways } from "../api/reads";
import { PageTitle } from "../app/shell";
import { asYaml } from "../editor/places";
import { Chip, Meter } from "../parts/chip";
import { type Action, Confirm } from "../parts/confirm";
import { RoleButton } from "../parts/role-button";
import { Empty, Failed, Loading, Panel } from "../parts/states";
import { Age } from "../parts/time";
import { counted } from "../parts/words";

const DiffView = lazy(async () => ({ default: (await import("../editor/diff-view")).DiffView }));
const FIRST = 20;

const route = getRouteApi("/rollouts");

export function RolloutsPage() {
  const search = route.useSearch();
  const navigate = useNavigate();
  const gateways = useGateways();
  const gateway = search.gateway ?? gateways.data?.items[0]?.name;
  const tab = search.tab === "rollouts" ? "rollouts" : "revisions";
  return (
    <>
      <PageTitle title="Rollouts and revisions" />
      {gateways.isError && <Failed error={gateways.error} retry={() => void gateways.refetch()} />}
      {gateways.data && gateways.data.items.length === 0 && <Empty title="No gateway is configured yet">Write a gateway document and apply it: lanekeeper apply -f gateway.yaml</Empty>}
      {gateway !== undefined && (
        <Stack gap="md">
          <Group align="end"><NativeSelect label="Gateway" value={gateway} data={gateways.data?.items.map((each) => each.name) ?? [gateway]} onChange={(event) => void navigate({ to: "/rollouts", search: { gateway: event.currentTarget.value } })} /></Group>
          <Applied gateway={gateway} saved={search.saved} />
          <Tabs value={tab} onChange={(value) => void navigate({ to: "/rollouts", search: { ...search, tab: value ?? undefined }, replace: true })}>
            <Tabs.List><Tabs.Tab value="revisions">Revisions</Tabs.Tab><Tabs.Tab value="rollouts">Rollouts in stages</Tabs.Tab></Tabs.List>
          </Tabs>
          {tab === "revisions" ? <Revisions gateway={gateway} from={search.from} to={search.to} /> : <Rollouts gateway={gateway} />}
        </Stack>
      )}
    </>
  );
}

/** How far the newest revision is, counted over every agent. */
function Applied({ gateway, saved }: { gateway: string; saved: string | undefined }) {
  const agents = useAgentsOf(gateway);
  const gateways = useGateways();
  const newest = gateways.data?.items.find((each) => each.name === gateway)?.revision;
  if (!agents.data || newest === undefined) return null;
  const live = agents.data.items.filter((agent) => agent.state === "live" || agent.state === "draining");
  const applied = live.filter((agent) => agent.applied_revision === newest).length;
  const refused = live.filter((agent) => agent.last_error?.revision === newest);
  const at = agents.data.complete ? "" : "at least ";
  return (
    <Panel title={`Revision ${newest}`}>
      {saved !== undefined && Number(saved) === newest && <Text size="sm" mb={6}>Saved.</Text>}
      <Meter legend={false} parts={[["applied", applied], ["pending", live.length - applied]]} />
      <Text size="sm" mt={6} role="status" data-testid="applied">
        {live.length === 0 ? "No agent serves this gateway now." : applied === live.length ? `Applied on all of ${at}${counted(live.length, "agent")}.` : `Applied on ${applied} of ${at}${counted(live.length, "agent")}.`}
      </Text>
      {refused.length > 0 && (
        <Alert color="red" variant="outline" mt="xs" title={`${counted(refused.length, "agent")} refused it`}>
          {refused.slice(0, 5).map((agent) => <Text key={agent.id} size="sm"><Link to="/agents/$id" params={{ id: agent.id }}>{agent.name}</Link>: {agent.last_error?.errors?.map((error) => error.message).join("; ")}</Text>)}
        </Alert>
      )}
    </Panel>
  );
}

function Revisions({ gateway, from, to }: { gateway: string; from: string | undefined; to: string | undefined }) {
  const [count, setCount] = useState(FIRST);
  const read = useRevisions(gateway, count);
  const [action, setAction] = useState<Action | null>(null);
  const navigate = useNavigate();
  const client = useQueryClient();
  if (read.isPending) return <Loading rows={5} />;
  if (read.isError) return <Failed error={read.error} retry={() => void read.refetch()} />;
  const revisions = read.data.items;
  const newest = revisions[0]?.revision ?? 0;
  const compare = (change: { from?: string; to?: string }) => void navigate({ to: "/rollouts", search: (before) => ({ ...before, ...change }), replace: true });
  const rollBack = (revision: number) =>
    setAction({
      title: `Roll back to revision ${revision}`,
      effect: `Writes the content of revision ${revision} as a new revision of ${gateway}, which goes to its agents by the gateway's plan. Revision ${newest} stays in the history.`,
      verb: "Roll back", danger: true, message: true,
      run: async (message) => {
        const params = { path: { gateway, revision }, header: { "If-Match": `"${newest}"`, "Idempotency-Key": idempotencyKey() }, query: message ? { message } : {} };
        await answered(api.POST("/admin/v1/gateways/{gateway}/revisions/{revision}/rollback", { params }));
        await client.invalidateQueries();
      },
    });
  return (
    <Stack gap="md">
      {(from !== undefined || to !== undefined) && <Comparison gateway={gateway} from={Number(from ?? newest - 1)} to={Number(to ?? newest)} close={() => compare({ from: undefined, to: undefined })} />}
      <div className="panel">
        <Table className="cards" verticalSpacing="xs">
          <Table.Thead><Table.Tr>{["Revision", "Message", "Author", "When", ""].map((title) => <Table.Th key={title}>{title}</Table.Th>)}</Table.Tr></Table.Thead>
          <Table.Tbody>
            {revisions.map((each) => (
              <Table.Tr key={each.revision}>
                <Table.Td><b className="number">{each.revision}</b>{each.revision === newest && <>&nbsp;<Chip kind="live">newest</Chip></>}</Table.Td>
                <Table.Td style={{ overflowWrap: "anywhere" }}>{each.message || <span className="small">no message</span>}</Table.Td>
                <Table.Td data-label="Author">{each.author}</Table.Td>
                <Table.Td data-label="When"><Age at={Date.parse(each.created_at)} /></Table.Td>
                <Table.Td>
                  <Group gap="xs" justify="flex-end">
                    {each.parent != null && <Button size="compact-sm" variant="default" onClick={() => compare({ from: String(each.parent), to: String(each.revision) })} aria-label={`What changed in revision ${each.revision}`}>What changed</Button>}
                    {each.revision !== newest && <Button size="compact-sm" variant="default" onClick={() => compare({ from: String(each.revision), to: String(newest) })} aria-label={`To now from revision ${each.revision}`}>To now</Button>}
                    {each.revision !== newest && <RoleButton needs="admin" size="compact-sm" onClick={() => rollBack(each.revision)}>Roll back to {each.revision}</RoleButton>}
                  </Group>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
        {!read.data.complete && <Button mt="sm" variant="default" onClick={() => setCount(count + 100)}>Show older ones</Button>}
      </div>
      <Confirm action={action} close={() => setAction(null)} />
    </Stack>
  );
}

function Comparison({ gateway, from, to, close }: { gateway: string; from: number; to: number; close: () => void }) {
  const before = useRevision(gateway, from);
  const after = useRevision(gateway, to);
  const error = before.error ?? after.error;
  return (
    <Panel title={`From revision ${from} to ${to}`} aside={<Button size="compact-sm" variant="default" onClick={close}>Close the comparison</Button>}>
      {error ? <Failed error={error} /> : before.data && after.data ? (
        <Suspense fallback={<Loading />}><DiffView before={asYaml(before.data.document)} after={asYaml(after.data.document)} labels={[`Revision ${from}`, `Revision ${to}`]} /></Suspense>
      ) : <Loading />}
    </Panel>
  );
}

function Rollouts({ gateway }: { gateway: string }) {
  const read = useRollouts(gateway);
  if (read.isPending) return <Loading rows={4} />;
  if (read.isError) return <Failed error={read.error} retry={() => void read.refetch()} />;
  if (read.data.length === 0) return <Empty title="No rollout in stages yet">Every revision goes to all agents at once unless the gateway has a plan: <code>PUT /admin/v1/gateways/{gateway}/rollout-plan</code></Empty>;
  return (
    <div className="panel">
      <ul className="rows">{read.data.map((rollout) => <RolloutRow key={rollout.revision} rollout={rollout} />)}</ul>
    </div>
  );
}

function RolloutRow({ rollout }: { rollout: Schemas["RolloutInfo"] }) {
  const stage = rollout.stages.find((each) => each.state === "current");
  return (
    <li>
      <Group justify="space-between" gap="xs">
        <Link to="/rollouts/$gateway/$revision" params={{ gateway: rollout.gateway, revision: String(rollout.revision) }} className="name">Revision {rollout.revision}</Link>
        <Chip kind={rollout.state} />
      </Group>
      <div className="small">
        {rollout.message || "no message"} · {rollout.author} · <Age at={Date.parse(rollout.created_at)} />
        {stage && ` · stage ${stage.name}`}{rollout.stop && ` · ${rollout.stop.detail}`}{rollout.waits_for != null && ` · waits for ${rollout.waits_for}`}
      </div>
    </li>
  );
}
