// A gateway's document, its revisions, and what is on its way to agents.

import { useQuery } from "@tanstack/react-query";
import { api, answered, type Schemas, tagged } from "./client";
import { LIVE, pageQuery, whole } from "./reads";

export type Document = Schemas["Document"];

/** The current document with the ETag that a write must name. */
export const useDocument = (gateway: string) =>
  useQuery({
    queryKey: ["document", gateway],
    queryFn: () => tagged(api.GET("/admin/v1/gateways/{gateway}/config", { params: { path: { gateway } } })),
    staleTime: 5000,
    refetchInterval: 15_000,
  });

/** The schema of gateway documents, as served. */
export const useSchema = () =>
  useQuery({
    queryKey: ["schema"],
    staleTime: Infinity,
    queryFn: async () => (await (await fetch("/schemas/gateway.json")).json()) as SchemaNode,
  });

export interface SchemaNode {
  $defs?: Record<string, object>;
}

/** The schema of one pool, taken out of that of documents. */
export const poolSchema = (schema: SchemaNode | undefined): object | undefined => {
  const pool = schema?.$defs?.["Pool"];
  return pool ? { ...pool, $defs: schema.$defs } : undefined;
};

/** Revisions read at once; more are behind a button. */
const REVISIONS = 50;

export const useRevisions = (gateway: string | undefined, count: number) =>
  useQuery({
    queryKey: ["revisions", gateway ?? "", count],
    enabled: gateway !== undefined,
    refetchInterval: 5000,
    queryFn: () =>
      whole<Schemas["RevisionInfo"]>(async (cursor) => {
        const query = { ...pageQuery(cursor), limit: REVISIONS };
        const page = await answered(api.GET("/admin/v1/gateways/{gateway}/revisions", { params: { path: { gateway: gateway ?? "" }, query } }));
        return { items: page.revisions, next: page.next_cursor };
      }, count),
  });

export const useRevision = (gateway: string, revision: number | undefined) =>
  useQuery({
    queryKey: ["revision", gateway, revision ?? 0],
    enabled: revision !== undefined,
    staleTime: Infinity,
    queryFn: () => answered(api.GET("/admin/v1/gateways/{gateway}/revisions/{revision}", { params: { path: { gateway, revision: revision ?? 0 } } })),
  });

export const useRollouts = (gateway: string | undefined) =>
  useQuery({
    queryKey: [LIVE, "rollouts", gateway ?? ""],
    enabled: gateway !== undefined,
    refetchInterval: 2000,
    queryFn: async () => (await answered(api.GET("/admin/v1/gateways/{gateway}/rollouts", { params: { path: { gateway: gateway ?? "" }, query: { limit: 20 } } }))).rollouts,
  });

export const useRollout = (gateway: string, revision: number) =>
  useQuery({
    queryKey: [LIVE, "rollout", gateway, revision],
    refetchInterval: 1000,
    queryFn: () => answered(api.GET("/admin/v1/gateways/{gateway}/rollouts/{revision}", { params: { path: { gateway, revision } } })),
  });
