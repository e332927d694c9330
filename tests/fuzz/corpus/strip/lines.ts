foo as string
`x`

foo as string/*trailing*/
`x`

foo as string
+ ""

foo as string
/ 1

foo as string
[1]

foo as string
< 1

const x = y as string
(foo)

type A = 1
(foo)

let x
interface A {}
(foo)

class A { x
 declare y: 1
 ["z"] = 1 }

class A { x = 1
 private ["z"] = 1 }

class A { x = 1
 private static *g() {} }

let f = async (x: T): Promise<
  T> => x

let f = (
  a: number
): number => a

let f = <
  T
>(a: T) => a

type
X = 1

declare
let x

abstract
class A {}

interface
A {}

namespace
A {}

x as any
;[1]

x = y as any
[1].z

foo() as any // comment
(bar)

interface A {} // comment
(bar)

foo()
export interface A {} /* x */
(bar)

function f(): void // c
function f(): void /* d */
function f() {}

foo
export type { A } // x
(bar)

foo
import type { A } from "x" // x
(bar)

foo()
for (;;) { type A = 1
 (bar) }

if (x) { type A = 1 }

function f() { type A = 1
 (bar) }

foo()
class A { declare x; [y] = 1 }

foo()
class A extends B { declare x; [y] = 1 }

foo();
class A extends B<C> implements D { declare x; [y] = 1 }

let x = y as any // a
let z

return_
type A = 1;
`x`

function f<
T>(a) {}

class A { m<
T>(a) {} static<T>() {} }

if (a) b as any
else c as any
(d)

switch (a) { case 1: b as any
 case 2 as any: c as any }

label: x as any
(y)

a = b as c, d as e
(f)

export default x as any
(y)

throw x as any
(y)

for (const a of b as any) c as any
(d)

() => x as any
(y)

let a = b!
(c)

let a = b!
[c]

export const a: A.b.c = 1 as A.b.c.d<e>[], z = 2 as a.b.c

a = b as any as any ? c : d

async function f() { for await (const x of y as any) {} }

class A { static { type X = 1
 (y) } }

let x = { a(): void {}, b: c as d }
class B { a(): void
 b() {} }

declare const a: 1
declare function b(): void
declare class C {}
(foo)

foo
declare const a: 1
declare function b(): void
declare class C {}
(foo)

foo
namespace A {}
(foo)

foo
declare module "x"
declare module "y";
(foo)

foo
declare global {}
(foo)

abstract class A { abstract a
 abstract b()
 abstract c(): void
 abstract get d(): 1
 e }

class A { a?(): void; b?: string; c!: number
 d?
 e!: string
 f? = 1 }

class A { private constructor() {} protected static get x() { return 1 } public async *y() {} }

class A { @dec() private ["x"] = 1; @dec() private ["y"]() {} private ["z"]() {} }

/** doc */ export type A = 1 /* t */; /* u */ foo

export type A = { // c
  b: 1 // d
} // e
foo
