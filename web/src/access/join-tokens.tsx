import { Button, Group, NativeSelect, NumberInput, Stack, Table, Text } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type SyntheticEvent, useState } from "react";
import { api, answered, idempotencyKey, type Schemas } from "../api/client";
import { useGateways } from "../api/reads";
import { type Action, Confirm } from "../parts/confirm";
import { Empty, Failed, Loading, Panel } from "../parts/states";
import { Age, Left } from "../parts/time";
import { Secret } from "./secret";

const LIVES = [{ value: "3600", label: "1 h" }, { value: "86400", label: "1 day" }, { value: String(7 * 86_400), label: "7 days" }];

export function JoinTokens() {
  const [action, setAction] = useState<Action | null>(null);
  const client = useQueryClient();
  const read = useQuery({ queryKey: ["join-tokens"], queryFn: () => answered(api.GET("/admin/v1/join-tokens")), refetchInterval: 10_000 });
  const revoke = (token: Schemas["JoinTokenInfo"]) =>
    setAction({
      title: `Revoke a join token of ${token.gateway}`, verb: "Revoke", danger: true,
      effect: "No agent joins with it any more. Agents that joined with it stay.",
      run: async () => {
        await answered(api.DELETE("/admin/v1/join-tokens/{id}", { params: { path: { id: token.id }, header: { "Idempotency-Key": idempotencyKey() } } }));
        await client.invalidateQueries({ queryKey: ["join-tokens"] });
      },
    });
  return (
    <Stack gap="md">
      <NewJoinToken />
      <Panel title="Join tokens">
        {read.isPending ? <Loading /> : read.isError ? <Failed error={read.error} retry={() => void read.refetch()} /> : read.data.join_tokens.length === 0 ? <Empty title="No join token">Agents need one for their first certificate.</Empty> : (
          <Table className="cards">
            <Table.Thead><Table.Tr>{["Gateway", "Used", "Made", "By", "Ends", ""].map((title) => <Table.Th key={title}>{title}</Table.Th>)}</Table.Tr></Table.Thead>
            <Table.Tbody>
              {read.data.join_tokens.map((token) => (
                <Table.Tr key={token.id}>
                  <Table.Td><span className="name">{token.gateway}</span></Table.Td>
                  <Table.Td data-label="Used" className="number">{token.uses} of {token.max_uses}</Table.Td>
                  <Table.Td data-label="Made"><Age at={Date.parse(token.created_at)} /></Table.Td>
                  <Table.Td data-label="By">{token.created_by}</Table.Td>
                  <Table.Td data-label="Ends"><Left at={Date.parse(token.expires_at)} over="ended" /></Table.Td>
                  <Table.Td><Button size="compact-sm" variant="default" onClick={() => revoke(token)} aria-label={`Revoke a join token of ${token.gateway}`}>Revoke</Button></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        )}
      </Panel>
      <Confirm action={action} close={() => setAction(null)} />
    </Stack>
  );
}

function NewJoinToken() {
  const gateways = useGateways();
  const [gateway, setGateway] = useState("");
  const [life, setLife] = useState("3600");
  const [uses, setUses] = useState(1);
  const client = useQueryClient();
  const chosen = gateway || gateways.data?.items[0]?.name || "";
  const make = useMutation({
    mutationFn: () => answered(api.POST("/admin/v1/join-tokens", { params: { header: { "Idempotency-Key": idempotencyKey() } }, body: { gateway: chosen, ttl_secs: Number(life), max_uses: uses } })),
    onSuccess: () => void client.invalidateQueries({ queryKey: ["join-tokens"] }),
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    make.mutate();
  };
  return (
    <Panel title="New join token">
      <form onSubmit={submit}>
        <Group align="end" gap="sm">
          <NativeSelect label="Gateway" value={chosen} onChange={(event) => setGateway(event.currentTarget.value)} data={(gateways.data?.items ?? []).map((each) => each.name)} />
          <NumberInput label="Agents that may join" min={1} max={100_000} allowDecimal={false} value={uses} onChange={(value) => setUses(Number(value) || 1)} w={170} />
          <NativeSelect label="Ends after" value={life} onChange={(event) => setLife(event.currentTarget.value)} data={LIVES} />
          <Button type="submit" loading={make.isPending} disabled={chosen === ""}>Make a join token</Button>
        </Group>
      </form>
      {make.error && <Failed title="Not made" error={make.error} />}
      {make.data && <Stack mt="sm"><Secret name={`Join token of ${make.data.gateway}`} secret={make.data.token} use={<Text size="sm">Write it into a file and start the agent with <code>--join-token-file</code>.</Text>} done={make.reset} /></Stack>}
    </Panel>
  );
}
