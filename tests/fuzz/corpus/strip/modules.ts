export type * from "a"
export type * as ns from "a"
import type { A } from "a"; import type B from "b"; import type * as C from "c"; import D, { type E, type F as G, H } from "d"
import { type } from "a"
import { type as as } from "a"
import { type as } from "a"
import { type as as as } from "a"
import { type as x } from "a"
export { type }
export { type as as }
export { type A, B, type C as D }
export default function foo(a: string): void; export default function foo(a: any) {}
export default abstract class A {}
export abstract class A {}
export declare const x: number
export interface A {}
export @dec class A {}
export default <T>(x: T) => x
export default x as any
export default class<T> {}
import json from "./a.json" with { type: "json" }
import type json from "./a.json" with { type: "json" }
export const f = async function* <T>(x: T) {}
export { x as default } from "y"
export * from "y"
export * as z from "y"
import x from "y"
import * as z from "y"
import "y"
import {} from "y"
import { type A } from "y"
import { a, } from "b"
import { type A, } from "b"
export interface A {} /* x */
export type { A } // x
import type { A } from "x" // x
