// console.table, drawn as Node draws it.
(function () {
    'use strict';
    return (data, columns, host) => {
        const INSPECT = 5;
        if (data === null || typeof data !== 'object') return host(INSPECT, [data], 1);
        const show = (value) => host(INSPECT, [value], 2, value !== null && typeof value === 'object' ? 0 : 2);
        const rows = [], names = [], INDEX = '(index)', VALUES = 'Values';
        let hasValues = false;
        const entries = data instanceof Map ? [...data].map(([key, value], i) => [i, key, value])
            : data instanceof Set ? [...data].map((value, i) => [i, value]) : Object.keys(data).map((key) => [key, data[key]]);
        for (const entry of entries.slice(0, 1000)) {
            const value = entry[entry.length - 1], cells = {};
            if (entry.length === 3) cells['Key'] = show(entry[1]);
            if (value !== null && typeof value === 'object' && entry.length === 2) {
                for (const key of Object.keys(value)) {
                    if (columns !== undefined && !columns.includes(key)) continue;
                    cells[key] = show(value[key]);
                    if (!names.includes(key)) names.push(key);
                }
            } else {
                cells[VALUES] = show(value);
                hasValues = true;
            }
            rows.push([String(entry[0]), cells]);
        }
        const first = data instanceof Map || data instanceof Set ? '(iteration index)' : INDEX;
        const head = [first, ...(data instanceof Map ? ['Key'] : []), ...(columns === undefined ? names : columns), ...(hasValues ? [VALUES] : [])];
        const lines = rows.map(([index, cells]) => [index, ...head.slice(1).map((name) => cells[name] ?? '')]);
        const widths = head.map((name, i) => Math.max(name.length, ...lines.map((line) => line[i].length)) + 2);
        const center = (text, width) => {
            const left = Math.floor((width - text.length) / 2);
            return ' '.repeat(left) + text + ' '.repeat(width - text.length - left);
        };
        const draw = (cells) => '│' + cells.map((text, i) => center(text, widths[i])).join('│') + '│';
        const rule = (left, middle, right) => left + widths.map((width) => '─'.repeat(width)).join(middle) + right;
        return [rule('┌', '┬', '┐'), draw(head), rule('├', '┼', '┤'), ...lines.map(draw), rule('└', '┴', '┘')].join('\n');
    };
})
