import { Group, Stack, Text } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, answered, type Schemas } from "../api/client";
import { LIVE } from "../api/reads";
import { Chip, Meter } from "../parts/chip";
import { RoleButton } from "../parts/role-button";
import { Failed } from "../parts/states";
import { Age, Left } from "../parts/time";
import { counted, listed, plain } from "../parts/words";
import { targetText } from "./overrides";

/** Names of agents that have not answered, listed at most. */
const NAMES_MAX = 8;

export function OverrideList({ overrides }: { overrides: Schemas["OverrideInfo"][] }) {
  return (
    <ul className="rows" aria-label="Overrides">
      {overrides.map((override) => <OneOverride key={override.id} override={override} />)}
    </ul>
  );
}

function OneOverride({ override }: { override: Schemas["OverrideInfo"] }) {
  const client = useQueryClient();
  const release = useMutation({
    mutationFn: () =>
      answered(api.DELETE("/admin/v1/gateways/{gateway}/overrides/{id}", { params: { path: { gateway: override.gateway, id: override.id } } })),
    onSettled: () => client.invalidateQueries({ queryKey: [LIVE] }),
  });
  const once = override.action === "reset";
  const total = override.agents_applied + override.agents_pending;
  const pending = override.acks.filter((ack) => ack.state === "pending");
  const reasons = [...new Set(pending.map((ack) => ack.reason).filter((reason) => reason != null))];
  const labels = Object.entries(override.agents).map(([name, value]) => `${name}=${value}`);
  return (
    <li>
      <Stack gap={6}>
        <Group justify="space-between" gap="xs">
          <Chip kind="override">{plain(override.action)}</Chip>
          {(!once || pending.length > 0) && <RoleButton needs="operator" size="compact-sm" loading={release.isPending} onClick={() => release.mutate()}>Release</RoleButton>}
        </Group>
        <Text size="sm" style={{ overflowWrap: "anywhere" }}>{override.reason}</Text>
        <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
          {targetText(override)}{labels.length > 0 && `, agents with ${labels.join(", ")}`} · by {override.actor} <Age at={Date.parse(override.created_at)} /> · ends <Left at={Date.parse(override.expires_at)} over="now" />
        </Text>
        <Meter legend={false} parts={[["applied", override.agents_applied], ["pending", override.agents_pending]]} />
        <Text size="sm" data-testid="acks" role="status">
          {total === 0 ? "No agent is selected now." : `${once ? "Carried out" : "In force"} on ${override.agents_applied} of ${counted(total, "agent")}.`}
          {pending.length > 0 && ` Not yet: ${listed(pending.map((ack) => ack.agent), NAMES_MAX)}.`}
          {reasons.length > 0 && ` ${reasons.join("; ")}.`}
        </Text>
        {release.error && <Failed title="Not released" error={release.error} />}
      </Stack>
    </li>
  );
}
