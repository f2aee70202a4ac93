import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The page is embedded by dashboard-api, which lies beside this folder. For work on the page:
// `LANEKEEPER_URL=http://127.0.0.1:7401 npx vite` passes the API through.
const api = process.env["LANEKEEPER_URL"] ?? "http://127.0.0.1:7401";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../dashboard-api/page/built",
    emptyOutDir: true,
    target: "es2022",
    // light-dark() stays as it is written; all three know it since 2024.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    // The policy of the page allows no inlined files.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
  },
  server: {
    proxy: Object.fromEntries(
      ["/api", "/admin", "/session", "/schemas", "/docs", "/openapi.json", "/icon.svg"].map((path) => [path, api]),
    ),
  },
  test: { environment: "jsdom", include: ["src/**/*.test.{ts,tsx}"] },
});
