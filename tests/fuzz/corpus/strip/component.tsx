const f = <T,>(p: Props<T>) => <A<T> b={p.c as d} e="it's">text {x!} <>y</></A>;
export default (function <P>(this: void, p?: P): JSX.Element { return <div /> }) satisfies F<any>
