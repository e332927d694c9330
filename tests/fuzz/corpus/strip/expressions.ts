function f<const T>(x: T): T { return x }
let x = <T,>(y: T) => y
let a = b satisfies C as D
let a = b!.c!.d![0]!()
let a = b!
function assertIsString(val: any): asserts val is string {}
function isX(this: Foo): this is Bar { return true }
function a(this: void, b?: number, ...c: string[]) {}
function a(this: void) {}
let v = f<string>
let v = new Map<string, Array<number>>()
let v = new Map<string, Array<number>>
const x = a < b, y = c > (d)
f(a < b, c > d)
f(a<b, c>(d))
let t = tag<T>`x`
for (const x of y as any[]) {}
for (let i: number = 0; i < 1; i++) {}
try {} catch (e: unknown) {}
let {a, b}: {a: string, b: number} = c
let [a]: [string] = c
namespace A { export type B = 1; interface C {} namespace D { type E = 1 } }
namespace A.B { export type C = 1 }
let o = { m<T>(this: T, x?: T): T { return x! }, get a(): number { return 1 }, async *g<T>(): any {} }
let x = y as const
using x = y as Disposable
await using x = y
async function f() { await using x = y as any }
let a = b as any as T[]
if (a as b) c
a = b ? (c) : d => e
a ? (b) : c
a ? (b, c) : d
a ? (b): c => d : e
let f = async <T>(x: T): Promise<T> => x
let f = async (x: T): Promise<
  T> => x
const x = y as string
let x
 ["z"] = 1 }
 private ["z"] = 1 }
 private static *g() {} }
label: for (;;) {}
let x = a! + b!
let x = a! as any
x! = 1
x!++
delete x!.y
a?.b!.c
a?.<string>()
a?.b<string>()
super.foo<string>()
new (foo as any)<T>()
(a as any) = 1
({ a: b as any } = c)
for (x as any of y) {}
let x = function <T>(this: T): void {}
let x = class<T> implements Foo<T> {}
function* g<T>(): Generator<T> { yield x as T }
let x = a as T ? b : c
let x = a as T[] | undefined
let x = a as T & U
let x = a as T || b
let x = a as T && b
let x = (a as T) ?? b
throw x as Error
  Foo
let re = /a<b>/.test(x as string)
let d = a / b as number / c
a = <T>(x: T) => x
function f(a: number, b = 1 as number, { c }: { c: string } = {} as any) {}
function f(a, b?) {}
let x = (a?) => a
let x = (a?: number, b?) => a
let x = ({ a }: { a: string }) => a
let x = ([a]: string[]) => a
let x = (...a: string[]) => a
let x = (this: Foo) => 1
X = 1
let x
a<b>>c
a < b
a << b > c
if (a < b || c > d) {}
let g = a<b>?.()
let g = a<b>;
let g = [a<b>, c]
let f = function(): asserts this is Foo {}
switch (x as any) { case y as any: z as any; break; default: type A = 1 }
while (x as any) { }
do { } while (x as any)
x as any; y as any
x as any
;[1]
x = y as any
[1].z
let a = { ...(b as any), c }
f(...(b as any[]))
`${a as string}`
let s = `${(x: number): string => "a"}`
let f: <T>(x: T) => x is string
let x = a as unknown as (b: c) => d
let x = a as (() => void) | null
let x = a as { b: c }
let x = a as typeof b
let x = a as keyof B
let x = a as "b" | 'c'
let x = [a as b, c as d]
let x = { a: b as c, d }
foo(a as b, c)
() => a as b
() => ({} as b)
async () => { await (a as b) }
let π: Ünï = "é" as Ünï
let x /* a */ : /* b */ string /* c */ = 1
function f(a /*x*/ ? /*y*/ : /*z*/ string /*w*/, b) {}
let y = 1 as any // comment
foo() as any // comment
function f(): void // c
function f(): void /* d */
function f() {}
