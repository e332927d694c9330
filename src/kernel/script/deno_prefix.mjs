// Stands before every cell of Deno: a cell that begins to run while the inspector is spoken to could not
// be interrupted, since Deno listens to nobody else meanwhile. It begins one turn later.

export const PREFIX = 'await void 0; ';
