import { Button, Stack, Table } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, answered, idempotencyKey, type Schemas } from "../api/client";
import { Chip } from "../parts/chip";
import { type Action, Confirm } from "../parts/confirm";
import { Empty, Failed, Loading, Panel } from "../parts/states";
import { Age, Left } from "../parts/time";

export function Identities() {
  const [action, setAction] = useState<Action | null>(null);
  const client = useQueryClient();
  const read = useQuery({ queryKey: ["identities"], queryFn: () => answered(api.GET("/admin/v1/identities")), refetchInterval: 10_000 });
  const revoke = (identity: Schemas["IdentityInfo"]) =>
    setAction({
      title: `Revoke the certificate of ${identity.name}`, verb: "Revoke", danger: true, message: true,
      effect: "Its session ends within five seconds and it cannot come back without a new join token. It goes on serving callers with what it has.",
      run: async (message) => {
        await answered(api.DELETE("/admin/v1/identities/{id}", { params: { path: { id: identity.id }, query: message ? { message } : {}, header: { "Idempotency-Key": idempotencyKey() } } }));
        await client.invalidateQueries({ queryKey: ["identities"] });
      },
    });
  return (
    <Stack gap="md">
      <Panel title="Agents' identities">
        {read.isPending ? <Loading /> : read.isError ? <Failed error={read.error} retry={() => void read.refetch()} /> : read.data.identities.length === 0 ? <Empty title="No agent has joined with a certificate">Under --insecure none has one.</Empty> : (
          <Table className="cards">
            <Table.Thead><Table.Tr>{["Agent", "Gateway", "Joined", "Renewed", "Certificate ends", ""].map((title) => <Table.Th key={title}>{title}</Table.Th>)}</Table.Tr></Table.Thead>
            <Table.Tbody>
              {read.data.identities.map((identity) => (
                <Table.Tr key={identity.id}>
                  <Table.Td><span className="name">{identity.name}</span></Table.Td>
                  <Table.Td data-label="Gateway">{identity.gateway}</Table.Td>
                  <Table.Td data-label="Joined"><Age at={Date.parse(identity.joined_at)} /></Table.Td>
                  <Table.Td data-label="Renewed"><Age at={Date.parse(identity.renewed_at)} /></Table.Td>
                  <Table.Td data-label="Certificate ends"><Left at={Date.parse(identity.expires_at)} over="ended" /></Table.Td>
                  <Table.Td>{identity.revoked_at == null ? <Button size="compact-sm" variant="default" onClick={() => revoke(identity)} aria-label={`Revoke ${identity.name}`}>Revoke</Button> : <Chip kind="stopped">revoked</Chip>}</Table.Td>
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
