// The value that lets this page's own styles pass its policy. It is of no use to a script: scripts
// come from files alone.

const nonce = document.querySelector<HTMLMetaElement>('meta[name="style-nonce"]')?.content ?? "";

// Libraries that make style elements by themselves look here (get-nonce, by webpack's convention).
Object.assign(globalThis, { __webpack_nonce__: nonce });

export const styleNonce = (): string => nonce;
