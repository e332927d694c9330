type X<in T, out U, in out V, const W extends string> = T
let u: unique symbol
declare const s: unique symbol;
type A = `${string & "x"}-${number | boolean}`
type G = { get x(): number; set x(v: number) }
type M = { -readonly [K in keyof T]-?: T[K] }
type M = { +readonly [K in keyof T as `get${K}`]+?: T[K] }
type C = abstract new () => object
declare module "foo" { export const x: number }
declare global { interface Window { x: 1 } }
declare namespace A.B { const x: 1 }
declare function foo(): void
declare let x: number, y: string
interface A extends B, C<D> { (x: number): string; new (x: number): A; [k: string]: any; method?(): void }
let x: typeof import("a")
let x: import("a").B<C>[]
let x: import("a", { with: { "resolution-mode": "import" } }).B
type A = 1
interface A {}
let x: (a: number) => void = null!
let x: new () => Foo
let x: A extends B ? C : D = 1
let x: A extends (infer U extends string) ? U : never
let x: keyof typeof foo
let x: (typeof foo)[number]
let x: readonly string[]
let x: [a: string, b?: number, ...c: any[]]
let x: -1 | 1n | true | null | undefined | void | never
let x: this
let x: A["b"]["c"]
let x: A.B.C.D<E>
let x!: string
type T = typeof x.y.z<W>
let x: `a${"b"}c` = y
type T = [...A, ...B]
type T = A extends `${infer H}${infer R}` ? [H, R] : never
type T = { [K in A]: B }[A]
let x: Array<Array<Array<number>>> = []
let x: A<B<C>>= y
type F = (this: Window, ...args: any[]) => asserts args is any
type O = { readonly a?: string, b: number; c(): void }
let x: string // comment
type A = 1 // comment
interface A {} // comment
