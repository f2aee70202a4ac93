import { createTheme } from "@mantine/core";

/** Shades dark enough that white text on them can be read by everybody. */
export const theme = createTheme({
  primaryColor: "teal",
  primaryShade: 9,
  autoContrast: true,
  defaultRadius: "md",
  fontFamily: 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif',
  fontFamilyMonospace: 'ui-monospace, "DejaVu Sans Mono", Menlo, monospace',
  headings: { fontWeight: "650" },
  cursorType: "pointer",
  respectReducedMotion: true,
});
