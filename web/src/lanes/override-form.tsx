import { Alert, Button, Checkbox, Group, NativeSelect, NumberInput, SegmentedControl, Stack, TagsInput, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type SyntheticEvent, useState } from "react";
import { api, answered, idempotencyKey, Problem, type Schemas } from "../api/client";
import { LIVE, useAgentsOf } from "../api/reads";
import { useLive } from "../live/stream";
import { Failed } from "../parts/states";
import { counted } from "../parts/words";
import { type Action, effect, hasLabels, labelsOf, span, type Target, whatIsLeft } from "./overrides";

const ACTIONS: { value: Action; label: string }[] = [
  { value: "force_open", label: "Force open" },
  { value: "force_close", label: "Force close" },
  { value: "drain", label: "Drain" },
  { value: "reset", label: "Reset" },
];
const TIMES = [300, 900, 3600, 4 * 3600, 86_400];
const CUSTOM = "custom";
/** Bounds of the API: a week, and the bytes of a reason. */
const MINUTES_MAX = 7 * 24 * 60;
const REASON_MAX = 500;

export function OverrideForm({ cell, first, done }: { cell: Schemas["CellView"]; first: Action; done: () => void }) {
  const [action, setAction] = useState<Action>(first);
  const [everywhere, setEverywhere] = useState(false);
  const [reason, setReason] = useState("");
  const [time, setTime] = useState(String(TIMES[1]));
  const [minutes, setMinutes] = useState(30);
  const [labels, setLabels] = useState<string[]>([]);
  const [allowEmpty, setAllowEmpty] = useState(false);
  const [key, setKey] = useState(idempotencyKey);
  const client = useQueryClient();
  const { cells } = useLive();
  const agents = useAgentsOf(cell.gateway);
  const target: Target = cell.lane == null
    ? { gateway: cell.gateway, provider: cell.provider }
    : { gateway: cell.gateway, lane: cell.lane, pool: everywhere ? null : (cell.pool ?? "") };
  const secs = time === CUSTOM ? minutes * 60 : Number(time);
  const selected = labelsOf(labels);

  const give = useMutation({
    mutationFn: () => {
      const body: Schemas["OverrideForm"] = {
        action, reason: reason.trim(),
        ...("provider" in target ? { provider: target.provider } : { lane: target.lane, pool: target.pool }),
        ...(action === "reset" ? {} : { ttl_secs: secs }),
        ...(labels.length > 0 && selected ? { agents: selected } : {}),
        ...(allowEmpty ? { allow_empty: true } : {}),
      };
      const params = { path: { gateway: cell.gateway }, header: { "Idempotency-Key": key } };
      return answered(api.POST("/admin/v1/gateways/{gateway}/overrides", { params, body }));
    },
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: [LIVE, "overrides", cell.gateway] });
      done();
    },
    // What was refused may be corrected; the same key would be taken for the same request.
    onError: () => setKey(idempotencyKey()),
  });
  const leavesNone = give.error instanceof Problem && give.error.code === "last_usable_member";
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    give.mutate();
  };
  return (
    <form onSubmit={submit} aria-label="Override">
      <Stack gap="sm">
        <SegmentedControl fullWidth data={ACTIONS} value={action} onChange={(value) => setAction(value)} aria-label="What to do" />
        {cell.lane != null && (
          <NativeSelect
            label="Where" value={everywhere ? "all" : "one"} onChange={(event) => setEverywhere(event.currentTarget.value === "all")}
            data={[
              { value: "one", label: cell.pool === "" || cell.pool == null ? "On the direct route" : `In pool ${cell.pool}` },
              { value: "all", label: "In all pools and on the direct route" },
            ]}
          />
        )}
        <TextInput label="Reason" description="It is shown with the override and kept in the audit log" required maxLength={REASON_MAX} value={reason} onChange={(event) => setReason(event.currentTarget.value)} data-autofocus />
        {action !== "reset" && (
          <Group align="end" gap="sm">
            <NativeSelect
              label="Ends by itself after" value={time} onChange={(event) => setTime(event.currentTarget.value)}
              data={[...TIMES.map((each) => ({ value: String(each), label: span(each) })), { value: CUSTOM, label: "another time" }]}
            />
            {time === CUSTOM && (
              <NumberInput label="Minutes" min={1} max={MINUTES_MAX} allowDecimal={false} value={minutes} onChange={(value) => setMinutes(Number(value) || 1)} w={120} />
            )}
          </Group>
        )}
        <TagsInput
          label="Only agents with the labels" placeholder={labels.length === 0 ? "all agents; or zone=b" : ""} value={labels} onChange={setLabels}
          error={selected ? null : "Write labels as name=value"} clearable
        />
        <Alert variant="light" color="gray" title="What it will do" role="status">
          <Text size="sm" data-testid="effect">{effect(action, target, howMany(agents.data, selected ?? {}), secs, whatIsLeft([...cells.values()], target))}</Text>
        </Alert>
        {leavesNone && (
          <Checkbox label="Do it even though a pool is left without a usable member: its callers will be failed" checked={allowEmpty} onChange={(event) => setAllowEmpty(event.currentTarget.checked)} />
        )}
        {give.error && <Failed title="Not done" error={give.error} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={done}>Cancel</Button>
          <Button type="submit" color={action === "force_close" || action === "reset" ? "teal" : "red"} loading={give.isPending} disabled={reason.trim() === "" || !selected || (leavesNone && !allowEmpty)}>
            {ACTIONS.find((each) => each.value === action)?.label}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

/** The agents that an override reaches now, in words; what the list does not hold is not counted. */
function howMany(agents: { items: Schemas["AgentView"][]; complete: boolean } | undefined, labels: Record<string, string>): string {
  if (!agents) return "the gateway's agents";
  const live = agents.items.filter((agent) => agent.state !== "stale" && hasLabels(agent, labels)).length;
  return agents.complete ? counted(live, "agent") : `at least ${counted(live, "agent")}`;
}
