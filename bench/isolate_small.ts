interface Point { x: number; y: number }
const points: Point[] = [{ x: 1, y: 2 }, { x: 3, y: 4 }];
function sum(ps: readonly Point[], pick: (p: Point) => number): number {
    return ps.reduce((n: number, p) => n + pick(p), 0);
}
console.log(sum(points, (p) => p.x), sum(points, (p) => p.y as number));
