import { Button, type ButtonProps, Tooltip } from "@mantine/core";
import type { ReactNode } from "react";
import { type Role, useMay } from "../app/session";

/** A button for those whose role reaches; the others learn what is missing. It stays in the tab order. */
export function RoleButton({ needs, onClick, children, ...rest }: ButtonProps & { needs: Role; onClick: () => void; children: ReactNode }) {
  const { may, why } = useMay(needs);
  if (may) return <Button variant="default" {...rest} onClick={onClick}>{children}</Button>;
  return (
    <Tooltip label={why}>
      <Button variant="default" {...rest} data-disabled aria-disabled onClick={(event) => event.preventDefault()}>{children}</Button>
    </Tooltip>
  );
}
