// Reads that several pages share.

import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { POLL_MS } from "../app/queries";
import { useLive } from "../live/stream";
import { api, answered, type Schemas } from "./client";

/** Entries of one page of a list: the most that the API gives. */
const PAGE_ENTRIES = 250;
/** Pages read at most to have a whole list; what is longer is shown as cut. */
const PAGES_MAX = 40;
/** Least pause between two reads that follow the stream, ms. */
const FOLLOW_MS = 1000;

/** A list that was read page by page. */
export interface Whole<T> {
  items: T[];
  /** False when the list is longer than what was read. */
  complete: boolean;
}

type Page<T> = { items: T[]; next: string | null | undefined };

/** Reads a list to its end, or to `max` entries. */
export async function whole<T>(read: (cursor: string | undefined) => Promise<Page<T>>, max = PAGES_MAX * PAGE_ENTRIES): Promise<Whole<T>> {
  const items: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    items.push(...page.items);
    cursor = page.next ?? undefined;
  } while (cursor !== undefined && items.length < max);
  return { items: items.slice(0, max), complete: cursor === undefined && items.length <= max };
}

/** The parameters of one page. */
export const pageQuery = (cursor: string | undefined) => ({ limit: PAGE_ENTRIES, ...(cursor === undefined ? {} : { cursor }) });

/** Reads under this key are repeated when the fleet's breakers change. */
export const LIVE = "live";

/** Repeats the reads under {@link LIVE} after changes, at most once a second. Used once, by the shell. */
export function useFollowing(): void {
  const { version } = useLive();
  const client = useQueryClient();
  const last = useRef(0);
  useEffect(() => {
    const wait = Math.max(0, last.current + FOLLOW_MS - Date.now());
    const timer = window.setTimeout(() => {
      last.current = Date.now();
      // A read that is under way is let finish: else a fleet that changes all the time is never seen.
      void client.invalidateQueries({ queryKey: [LIVE] }, { cancelRefetch: false });
    }, wait);
    return () => window.clearTimeout(timer);
  }, [version, client]);
}

export const useSummary = () =>
  useQuery({
    queryKey: [LIVE, "summary"],
    queryFn: () => answered(api.GET("/api/v1/summary")),
    refetchInterval: POLL_MS,
  });

const readGateways = () =>
  whole<Schemas["GatewayInfo"]>(async (cursor) => {
    const page = await answered(api.GET("/admin/v1/gateways", { params: { query: pageQuery(cursor) } }));
    return { items: page.gateways, next: page.next_cursor };
  });

export const useGateways = () => useQuery({ queryKey: ["gateways"], queryFn: readGateways, refetchInterval: 10_000 });

/** All pools, of one gateway or of all. */
export const usePools = (gateway?: string) =>
  useQuery({
    queryKey: [LIVE, "pools", gateway ?? ""],
    refetchInterval: POLL_MS,
    queryFn: () =>
      whole<Schemas["PoolView"]>(async (cursor) => {
        const query = { ...pageQuery(cursor), ...(gateway === undefined ? {} : { gateway }) };
        const page = await answered(api.GET("/api/v1/pools", { params: { query } }));
        return { items: page.pools, next: page.next_cursor };
      }),
  });

/** Every cell with what each agent says that has it other than closed. */
export const useDetail = (gateway?: string) =>
  useQuery({
    queryKey: [LIVE, "detail", gateway ?? ""],
    queryFn: async () => {
      const query = { include: "closed", detail: "agents", ...(gateway === undefined ? {} : { gateway }) } as const;
      return { view: await answered(api.GET("/api/v1/breaker-state", { params: { query } })), at: Date.now() };
    },
    refetchInterval: 10_000,
  });

/** All agents of a gateway that are not gone, up to `max`. */
export const useAgentsOf = (gateway: string | undefined, max?: number) =>
  useQuery({
    queryKey: [LIVE, "agents-of", gateway ?? "", max ?? 0],
    enabled: gateway !== undefined,
    refetchInterval: 5000,
    placeholderData: keepPreviousData,
    queryFn: () =>
      whole<Schemas["AgentView"]>(async (cursor) => {
        const query = { ...pageQuery(cursor), ...(gateway === undefined ? {} : { gateway }) };
        const page = await answered(api.GET("/api/v1/agents", { params: { query } }));
        return { items: page.agents.filter((agent) => agent.state !== "gone"), next: page.next_cursor };
      }, max),
  });
