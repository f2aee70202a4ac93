import { Tabs, Text } from "@mantine/core";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { Audit } from "../access/audit";
import { Identities } from "../access/identities";
import { JoinTokens } from "../access/join-tokens";
import { Tokens } from "../access/tokens";
import { PageTitle } from "../app/shell";
import { useMay } from "../app/session";

const route = getRouteApi("/access");

const TABS = { tokens: "API tokens", "join-tokens": "Join tokens", identities: "Identities", audit: "Audit log" } as const;
type Tab = keyof typeof TABS;

export function AccessPage() {
  const search = route.useSearch();
  const navigate = useNavigate();
  const { may, why } = useMay("admin");
  const tab: Tab = search.tab !== undefined && search.tab in TABS ? (search.tab as Tab) : "tokens";
  return (
    <>
      <PageTitle title="Access and audit" />
      {!may ? <Text>{why}</Text> : (
        <>
          <Tabs value={tab} onChange={(value) => void navigate({ to: "/access", search: { tab: value ?? undefined } })} mb="md">
            <Tabs.List>{Object.entries(TABS).map(([value, label]) => <Tabs.Tab key={value} value={value}>{label}</Tabs.Tab>)}</Tabs.List>
          </Tabs>
          {tab === "tokens" ? <Tokens /> : tab === "join-tokens" ? <JoinTokens /> : tab === "identities" ? <Identities /> : <Audit cursor={search.cursor} />}
        </>
      )}
    </>
  );
}
