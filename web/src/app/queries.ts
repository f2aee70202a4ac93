import { QueryClient } from "@tanstack/react-query";
import { Problem } from "../api/client";

/** How often what no stream brings is asked for again, ms. */
export const POLL_MS = 3000;

/** A refusal stays one however often it is asked for; silence may pass. */
const mayPass = (error: Error): boolean => !(error instanceof Problem) || error.status === 0 || error.status >= 500;

export const queries = new QueryClient({
  defaultOptions: {
    queries: { retry: (count, error) => count < 2 && mayPass(error), staleTime: 1000, networkMode: "always" },
    mutations: { networkMode: "always" },
  },
});
