// The page's addresses. The server serves the document at each of them (`dashboard-api/src/page.rs`).

import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  parseSearchWith,
  stringifySearchWith,
} from "@tanstack/react-router";
import { NotFound } from "../parts/states";
import { Shell } from "./shell";

/** Keeps those parameters of an address that a page knows, as text. */
function words<K extends string>(...names: K[]): (search: Record<string, unknown>) => Partial<Record<K, string>> {
  return (search) => {
    const kept: Partial<Record<K, string>> = {};
    for (const name of names) {
      const value = search[name];
      if (value !== undefined && value !== null && value !== "" && typeof value !== "object") kept[name] = `${value as string | number | boolean}`;
    }
    return kept;
  };
}

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound });

const fleet = createRoute({
  getParentRoute: () => root,
  path: "/",
  validateSearch: words("gateway"),
  component: lazyRouteComponent(() => import("../pages/fleet"), "FleetPage"),
});

const lanes = createRoute({
  getParentRoute: () => root,
  path: "/lanes",
  validateSearch: words("gateway", "pool", "provider", "state", "search", "cell", "act"),
  component: lazyRouteComponent(() => import("../pages/lanes"), "LanesPage"),
});

const agents = createRoute({
  getParentRoute: () => root,
  path: "/agents",
  validateSearch: words("gateway", "state", "search", "cursor"),
  component: lazyRouteComponent(() => import("../pages/agents"), "AgentsPage"),
});

const agent = createRoute({
  getParentRoute: () => root,
  path: "/agents/$id",
  component: lazyRouteComponent(() => import("../pages/agent"), "AgentPage"),
});

const pools = createRoute({
  getParentRoute: () => root,
  path: "/pools",
  validateSearch: words("gateway"),
  component: lazyRouteComponent(() => import("../pages/pools"), "PoolsPage"),
});

const pool = createRoute({
  getParentRoute: () => root,
  path: "/pools/$gateway/$pool",
  component: lazyRouteComponent(() => import("../pages/pool"), "PoolPage"),
});

const edit = createRoute({
  getParentRoute: () => root,
  path: "/gateways/$gateway/edit",
  validateSearch: words("pool"),
  component: lazyRouteComponent(() => import("../pages/edit"), "EditPage"),
});

const rollouts = createRoute({
  getParentRoute: () => root,
  path: "/rollouts",
  validateSearch: words("gateway", "tab", "from", "to", "saved"),
  component: lazyRouteComponent(() => import("../pages/rollouts"), "RolloutsPage"),
});

const rollout = createRoute({
  getParentRoute: () => root,
  path: "/rollouts/$gateway/$revision",
  component: lazyRouteComponent(() => import("../pages/rollout"), "RolloutPage"),
});

const access = createRoute({
  getParentRoute: () => root,
  path: "/access",
  validateSearch: words("tab", "cursor"),
  component: lazyRouteComponent(() => import("../pages/access"), "AccessPage"),
});

export const router = createRouter({
  routeTree: root.addChildren([fleet, lanes, pools, pool, edit, rollouts, rollout, agents, agent, access]),
  // Values stay the text that they are in the address.
  parseSearch: parseSearchWith((value) => value),
  stringifySearch: stringifySearchWith(String),
  defaultPreload: "intent",
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
