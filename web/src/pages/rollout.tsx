import { Alert, Group, Stack, Stepper, Table, Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, answered, idempotencyKey, type Schemas } from "../api/client";
import { useRollout } from "../api/config";
import { LIVE } from "../api/reads";
import { PageTitle } from "../app/shell";
import { Chip, Meter } from "../parts/chip";
import { type Action, Confirm } from "../parts/confirm";
import { RoleButton } from "../parts/role-button";
import { Failed, Loading, Panel } from "../parts/states";
import { Age } from "../parts/time";
import { counted, plain } from "../parts/words";

/** Agents listed; those with something to say come first. */
const AGENTS_MAX = 200;
const ended = new Set(["done", "rolled_back", "superseded"]);

const route = getRouteApi("/rollouts/$gateway/$revision");

export function RolloutPage() {
  const { gateway, revision } = route.useParams();
  const read = useRollout(gateway, Number(revision));
  const title = `Rollout of revision ${revision}`;
  if (read.isPending) return <><PageTitle title={title} /><Loading rows={6} /></>;
  if (read.isError) return <><PageTitle title={title} /><Failed error={read.error} retry={() => void read.refetch()} /></>;
  const rollout = read.data;
  const current = rollout.stages.findIndex((stage) => stage.state === "current");
  const done = rollout.stages.filter((stage) => stage.state === "done").length;
  return (
    <>
      <PageTitle title={title}><Chip kind={rollout.state} /></PageTitle>
      <Stack gap="md">
        <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
          {gateway} · {rollout.message || "no message"} · {rollout.author} · <Age at={Date.parse(rollout.created_at)} /> · agents that it has not reached keep revision {rollout.base_revision}
        </Text>
        {rollout.stop && (
          <Alert color="red" variant="outline" role="alert" title={`Stopped: ${plain(rollout.stop.kind)}`}>
            <Text size="sm" style={{ overflowWrap: "anywhere" }}>{rollout.stop.detail}</Text>
            {rollout.stop.errors.map((error) => <Text key={`${error.pointer} ${error.message}`} size="sm" style={{ overflowWrap: "anywhere" }}><code>{error.pointer}</code> {error.message}</Text>)}
            {rollout.rollback_revision != null && <Text size="sm">Revision {rollout.rollback_revision} brought the old content back.</Text>}
          </Alert>
        )}
        {rollout.waits_for != null && <Alert color="yellow" variant="outline" title="Waiting">No live agent is in the first stage: it waits for {rollout.waits_for}.</Alert>}
        {rollout.partial && <Alert color="yellow" variant="outline" title="Partial">Part of the reports is missing: counts are too low.</Alert>}
        <Actions rollout={rollout} />
        <Panel title="Stages">
          <Stepper active={current >= 0 ? current : done} size="sm" color={rollout.state === "stopped" || rollout.state === "rolled_back" ? "red" : "teal"} orientation="horizontal" wrap>
            {rollout.stages.map((stage) => <Stepper.Step key={stage.name} label={stage.name} description={stage.state} allowStepSelect={false} />)}
          </Stepper>
          {rollout.stage_started_at != null && <Text size="sm" mt="sm">The latest stage began <Age at={Date.parse(rollout.stage_started_at)} />{rollout.whole_since != null ? <> and all of its agents have the revision since <Age at={Date.parse(rollout.whole_since)} suffix="" /></> : null}.</Text>}
        </Panel>
        <Panel title="Agents"><Agents rollout={rollout} /></Panel>
      </Stack>
    </>
  );
}

function Actions({ rollout }: { rollout: Schemas["RolloutDetail"] }) {
  const [action, setAction] = useState<Action | null>(null);
  const client = useQueryClient();
  const { gateway, revision, state } = rollout;
  if (ended.has(state)) return null;
  const params = (query: { message?: string; rollback?: boolean }) => ({ path: { gateway, revision }, header: { "Idempotency-Key": idempotencyKey() }, query });
  const note = (message: string) => (message ? { message } : {});
  const then = async (done: Promise<unknown>) => {
    await done;
    await client.invalidateQueries({ queryKey: [LIVE] });
  };
  const pause = () => setAction({
    title: "Pause the rollout", verb: "Pause", message: true, effect: "Agents keep the revision that they have, and no further stage begins until it is resumed.",
    run: (message) => then(answered(api.POST("/admin/v1/gateways/{gateway}/rollouts/{revision}/pause", { params: params(note(message)) }))),
  });
  const resume = () => setAction({
    title: "Resume the rollout", verb: "Resume", message: true, effect: "Its stage is measured anew. An agent that refused the revision refuses it again unless it has restarted.",
    run: (message) => then(answered(api.POST("/admin/v1/gateways/{gateway}/rollouts/{revision}/resume", { params: params(note(message)) }))),
  });
  const abort = (rollback: boolean) => setAction({
    title: rollback ? "Abort and roll back" : "Stop where it is", verb: rollback ? "Abort and roll back" : "Stop", danger: true, message: true,
    effect: rollback ? `Writes the content of revision ${rollout.base_revision} as a new revision for every agent: ${counted(rollout.counts.applied, "agent")} of ${rollout.counts.agents} serve revision ${revision} now.` : `${counted(rollout.counts.applied, "agent")} of ${rollout.counts.agents} keep revision ${revision}, the others what they have.`,
    run: (message) => then(answered(api.POST("/admin/v1/gateways/{gateway}/rollouts/{revision}/abort", { params: params({ ...note(message), rollback }) }))),
  });
  return (
    <>
      <Group gap="xs">
        {state === "running" && <RoleButton needs="admin" onClick={pause}>Pause…</RoleButton>}
        {(state === "paused" || state === "stopped") && <RoleButton needs="admin" onClick={resume}>Resume…</RoleButton>}
        <RoleButton needs="admin" onClick={() => abort(true)}>Abort and roll back…</RoleButton>
        {state === "running" && <RoleButton needs="admin" onClick={() => abort(false)}>Stop where it is…</RoleButton>}
      </Group>
      <Confirm action={action} close={() => setAction(null)} />
    </>
  );
}

function Agents({ rollout }: { rollout: Schemas["RolloutDetail"] }) {
  const { counts, revision } = rollout;
  const weight = (agent: Schemas["RolloutAgent"]): number => (agent.last_error?.revision === revision ? 0 : agent.new_problems.length > 0 ? 1 : agent.applied_revision === revision ? 3 : agent.stage == null ? 4 : 2);
  const agents = [...rollout.agents].sort((a, b) => weight(a) - weight(b) || a.agent.localeCompare(b.agent));
  return (
    <>
      <Meter legend={false} parts={[["applied", counts.applied], ["pending", Math.max(0, counts.agents - counts.applied)]]} />
      <Text size="sm" mt={6} mb="sm" role="status" data-testid="rollout-counts">
        {counts.applied} of {counted(counts.agents, "agent")} serve revision {revision}; its stages have reached {counts.reached}.
        {counts.rejected > 0 && ` ${counted(counts.rejected, "agent")} refused it.`}
        {counts.troubled > 0 && ` ${counted(counts.troubled, "agent")} serve it with new problems.`}
      </Text>
      <Table className="cards">
        <Table.Thead><Table.Tr>{["Agent", "State", "Stage", "Serves", "Says"].map((title) => <Table.Th key={title}>{title}</Table.Th>)}</Table.Tr></Table.Thead>
        <Table.Tbody>
          {agents.slice(0, AGENTS_MAX).map((agent) => (
            <Table.Tr key={agent.instance}>
              <Table.Td><Link to="/agents/$id" params={{ id: agent.instance }}>{agent.agent}</Link></Table.Td>
              <Table.Td><Chip kind={agent.last_error?.revision === revision ? "rejected" : agent.applied_revision === revision ? "applied" : agent.state === "live" ? "pending" : agent.state} /></Table.Td>
              <Table.Td data-label="Stage">{agent.stage == null ? "not reached" : (rollout.stages[agent.stage]?.name ?? agent.stage)}</Table.Td>
              <Table.Td data-label="Serves" className="number">{agent.applied_revision || "none"}</Table.Td>
              <Table.Td style={{ overflowWrap: "anywhere" }}>{[...(agent.last_error?.revision === revision ? (agent.last_error.errors ?? []).map((error) => `${error.pointer} ${error.message}`) : []), ...agent.new_problems].join("; ")}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {agents.length > AGENTS_MAX && <Text size="sm" mt="xs">The first {AGENTS_MAX} of {counted(agents.length, "agent")} are listed.</Text>}
    </>
  );
}
