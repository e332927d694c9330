abstract class A { abstract override foo(): void; protected abstract readonly x: number; static override readonly y = 1; declare readonly z: string; override async m() {} abstract accessor q: number; static accessor r = 1; accessor s: number = 1; private accessor t = 2; }
class A { static [k: string]: any; readonly [k: number]: string; static readonly [k: symbol]: 1; x = 1 }
class A { private static async *gen<T>(): AsyncGenerator<T> {} static async foo?(): void }
class A extends foo<T>(x) implements B {}
class A { constructor(a: string); constructor(a: number); constructor(a: any) {} }
declare class A { x: number }
class A { x
class A { x = 1
class A { x = 1
class A { x!: string; y?: number; "z"?: string; [q]?: number; 1: string; #p: number = 1; static #q?: string }
@dec() class A { @dec private x: number; @dec() public m(@inject() a: string) {} }
@dec export class A {}
class A { type = 1; declare = 2; readonly = 3; abstract = 4; get = 5; set = 6; static = 7; async = 8; public = 9; override = 1; accessor = 2; in = 3 }
class A { get; set; static; async; declare; readonly }
class A { declare() {} readonly() {} get() {} set(x: number) {} static() {} async() {} public() {} override() {} abstract() {} }
class A { readonly readonly: string; public public; private get x() { return 1 }; static static; override override() {} }
class A {}
