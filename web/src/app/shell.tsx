// What surrounds every page: who is signed in, where one can go, and whether what is shown is true.

import {
  ActionIcon, Alert, AppShell, Burger, Button, Center, Group, Loader, Menu, NavLink, Text, Title, useComputedColorScheme,
  useMantineColorScheme,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import {
  IconActivityHeartbeat, IconKey, IconLogout, IconMoon, IconRoute, IconServer, IconStack2, IconSun, IconUser, IconVersions,
} from "@tabler/icons-react";
import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { useEffect } from "react";
import { onSessionLost } from "../api/client";
import { useFollowing, useSummary } from "../api/reads";
import { live, useLive } from "../live/stream";
import { Failed } from "../parts/states";
import { duration, useNow } from "../parts/time";
import { forgetSession, signOut, useSession } from "./session";
import { SignIn } from "./sign-in";

const PAGES = [
  { to: "/", label: "Fleet", icon: IconActivityHeartbeat },
  { to: "/lanes", label: "Lanes and providers", icon: IconRoute },
  { to: "/pools", label: "Pools", icon: IconStack2 },
  { to: "/rollouts", label: "Rollouts and revisions", icon: IconVersions },
  { to: "/agents", label: "Agents", icon: IconServer },
  { to: "/access", label: "Access and audit", icon: IconKey },
] as const;

export function Shell() {
  const session = useSession();
  useEffect(() => onSessionLost(forgetSession), []);
  if (session.isPending) return <Center h="60vh"><Loader aria-label="Loading" /></Center>;
  if (session.isError) {
    return (
      <Center h="60vh" p="md"><Failed title="The server cannot be reached" error={session.error} retry={() => void session.refetch()} /></Center>
    );
  }
  return session.data ? <SignedIn name={session.data.name} role={session.data.role} /> : <SignIn />;
}

function SignedIn({ name, role }: { name: string; role: string }) {
  const [opened, { toggle, close }] = useDisclosure(false);
  const path = useRouterState({ select: (state) => state.location.pathname });
  useEffect(() => {
    live.start();
    return () => live.stop();
  }, []);
  useEffect(close, [path, close]);
  useFollowing();
  return (
    <AppShell header={{ height: 56 }} navbar={{ width: 230, breakpoint: "sm", collapsed: { mobile: !opened } }} padding={{ base: "sm", sm: "lg" }}>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={opened} onClick={toggle} hiddenFrom="sm" size="sm" aria-label={opened ? "Close the menu" : "Open the menu"} />
            <img src="/icon.svg" alt="" width={28} height={28} />
            <Text fw={700} fz="lg" visibleFrom="xs">Lanekeeper</Text>
          </Group>
          <Group gap="xs" wrap="nowrap">
            <Connection />
            <SchemeButton />
            <Menu position="bottom-end">
              <Menu.Target>
                <Button variant="default" size="compact-md" leftSection={<IconUser size={16} aria-hidden />} aria-label={`${name}, ${role}`} maw={220}>
                  <Text span truncate size="sm">{name} · {role}</Text>
                </Button>
              </Menu.Target>
              <Menu.Dropdown>
                <Menu.Item leftSection={<IconLogout size={16} aria-hidden />} onClick={() => void signOut().catch(() => undefined)}>Sign out</Menu.Item>
              </Menu.Dropdown>
            </Menu>
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label="Pages">
        {PAGES.map((page) => (
          <NavLink
            key={page.to}
            renderRoot={(props) => <Link to={page.to} {...props} />}
            label={page.label}
            leftSection={<page.icon size={18} aria-hidden />}
            active={page.to === "/" ? path === "/" : path.startsWith(page.to)}
            aria-current={(page.to === "/" ? path === "/" : path.startsWith(page.to)) ? "page" : undefined}
          />
        ))}
        <NavLink component="a" href="/docs/" label="API" description="readable description" />
      </AppShell.Navbar>
      <AppShell.Main>
        <Truth />
        <Outlet />
      </AppShell.Main>
    </AppShell>
  );
}

const PHASES = { loading: "Loading", live: "Live", late: "Reconnecting", lost: "Disconnected" } as const;
const PHASE_KINDS = { loading: "stale", live: "live", late: "late", lost: "lost" } as const;

function Connection() {
  const { phase, heardAt } = useLive();
  const silence = (useNow() - heardAt) / 1000;
  return (
    <span className="chip" data-kind={PHASE_KINDS[phase]} role="status" title={heardAt ? `heard from the server ${duration(silence)} ago` : undefined}>
      {PHASES[phase]}
    </span>
  );
}

/** Says when what is shown is not the whole truth. */
function Truth() {
  const { phase, heardAt, partial } = useLive();
  const summary = useSummary();
  if (phase === "lost") {
    return (
      <Alert color="red" variant="outline" mb="md" role="alert" title="Disconnected">
        The server does not answer. {heardAt ? `What you see is as of ${new Date(heardAt).toLocaleTimeString()}.` : "Nothing has been read yet."} The agents go on by their own breakers.
      </Alert>
    );
  }
  if (summary.data?.rebuilding) {
    return (
      <Alert color="yellow" variant="outline" mb="md" role="status" title="Rebuilding">
        The server is back and gathers its agents anew. Until those that were known have reported, or had their time for it, counts are too low and nothing is called healthy.
      </Alert>
    );
  }
  if (partial || summary.data?.partial) {
    return (
      <Alert color="yellow" variant="outline" mb="md" role="status" title="Partial">
        Part of the reports is missing: a store or another server does not answer.
      </Alert>
    );
  }
  return null;
}

function SchemeButton() {
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme("light");
  const next = scheme === "dark" ? "light" : "dark";
  return (
    <ActionIcon variant="default" size="lg" aria-label={`Use ${next} colours`} onClick={() => setColorScheme(next)}>
      {scheme === "dark" ? <IconSun size={18} aria-hidden /> : <IconMoon size={18} aria-hidden />}
    </ActionIcon>
  );
}

/** The heading of a page; the window's title follows it. */
export function PageTitle({ title, alarms = 0, children }: { title: string; alarms?: number; children?: React.ReactNode }) {
  useEffect(() => {
    document.title = `${alarms ? `(${alarms}) ` : ""}${title} · Lanekeeper`;
  }, [title, alarms]);
  return (
    <Group justify="space-between" mb="md" gap="sm">
      <Title order={1} fz={26} style={{ overflowWrap: "anywhere" }}>{title}</Title>
      {children}
    </Group>
  );
}
