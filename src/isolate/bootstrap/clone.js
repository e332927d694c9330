// structuredClone: copies by the HTML rules for the types that exist here.
(function () {
    'use strict';
    const refuse = (value) => {
        throw new DOMException(`${typeof value === 'function' ? `${value.name || 'function'} ` : typeof value === 'symbol' ? 'Symbol ' : ''}could not be cloned.`, 'DataCloneError');
    };
    const errors = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
    const tag = (value) => Object.prototype.toString.call(value).slice(8, -1);
    const isBuffer = (value) => { try { return Object.getOwnPropertyDescriptor(ArrayBuffer.prototype, 'byteLength').get.call(value) >= 0; } catch { return false; } };
    const copy = (value, seen, moved) => {
        if (typeof value === 'function' || typeof value === 'symbol') refuse(value);
        if (value === null || typeof value !== 'object') return value;
        if (seen.has(value)) return seen.get(value);
        const keep = (made) => { seen.set(value, made); return made; };
        const properties = (made) => {
            keep(made);
            for (const key of Object.keys(value)) made[key] = copy(value[key], seen, moved);
            return made;
        };
        if (Array.isArray(value)) { const made = new Array(value.length); return properties(made); }
        if (ArrayBuffer.isView(value)) {
            const buffer = copy(value.buffer, seen, moved);
            return keep(value instanceof DataView ? new DataView(buffer, value.byteOffset, value.byteLength)
                : new value.constructor(buffer, value.byteOffset, value.length));
        }
        if (isBuffer(value)) return keep(moved.has(value) ? value.transfer() : value.slice(0));
        if (value instanceof Date) return keep(new Date(value.getTime()));
        if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
        if (value instanceof Map) {
            const made = keep(new Map());
            for (const [key, item] of [...value]) made.set(copy(key, seen, moved), copy(item, seen, moved));
            return made;
        }
        if (value instanceof Set) {
            const made = keep(new Set());
            for (const item of [...value]) made.add(copy(item, seen, moved));
            return made;
        }
        if (value instanceof Error) {
            const made = keep(new (errors[value.name] ?? Error)(value.message));
            Object.defineProperty(made, 'stack', { value: value.stack, writable: true, configurable: true });
            if (Object.hasOwn(value, 'cause')) Object.defineProperty(made, 'cause', { value: copy(value.cause, seen, moved), writable: true, configurable: true });
            return made;
        }
        if (value instanceof Number || value instanceof String || value instanceof Boolean || value instanceof BigInt) return keep(Object(value.valueOf()));
        if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet || value instanceof WeakRef || tag(value) === 'Generator')
            throw new DOMException(`#<${tag(value)}> could not be cloned.`, 'DataCloneError');
        return properties({});
    };
    return {
        structuredClone: function structuredClone(value, options) {
            if (arguments.length === 0) throw new TypeError('structuredClone needs a value');
            return copy(value, new Map(), new Set(options?.transfer ?? []));
        },
    };
})
