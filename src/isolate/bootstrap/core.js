// Evaluated once into the template image: what every isolate has from its first instruction.
//
// Everything below keeps working whatever a script does to the globals: it holds its own references
// to what it needs, keeps its tables in objects without a prototype, and never iterates with a
// protocol a script could replace. The value is a function of `host` (the only way to the outside;
// the numbers are `enum host_op` in host.c) that gives the functions the host calls.
(function (host) {
    'use strict';
    const LOG = 1, NOW = 2, CHUNK = 3, BRIDGE = 4, INSPECT = 5, ELAPSED = 6, RANDOM = 7, CANCEL = 8;
    const apply = Reflect.apply, construct = Reflect.construct;
    const define = Object.defineProperty, descriptor = Object.getOwnPropertyDescriptor;
    const TypeErrorOf = TypeError, ErrorOf = Error, PromiseOf = Promise, StringOf = String;
    const stringify = JSON.stringify, parse = JSON.parse;
    const global = globalThis;
    const method = (object, name) => descriptor(object, name).value;
    const getter = (object, name) => descriptor(object, name).get;

    const put = (target, name, value) =>
        define(target, name, { __proto__: null, value, writable: true, configurable: true, enumerable: false });

    // ---- Timers: a list in order of due time. Times are dates, so that they hold in a copy. ----
    let first = null, nextTimer = 1;
    const insert = (timer) => {
        let before = null, after = first;
        while (after !== null && after.due <= timer.due) { before = after; after = after.next; }
        timer.next = after;
        if (before === null) first = timer; else before.next = timer;
    };
    const addTimer = (name, callback, ms, args, repeat) => {
        if (typeof callback !== 'function')
            throw new TypeErrorOf(name + ' needs a function, not ' + (callback === null ? 'null' : typeof callback));
        ms = +ms;
        if (!(ms >= 1 && ms <= 2147483647)) ms = 1;
        const timer = { __proto__: null, id: nextTimer++, due: host(NOW) + ms, callback, args, every: repeat ? ms : 0, next: null };
        insert(timer);
        return timer.id;
    };
    const clear = (id) => {
        id = +id;
        for (let before = null, timer = first; timer !== null; before = timer, timer = timer.next)
            if (timer.id === id) {
                timer.every = 0;
                if (before === null) first = timer.next; else before.next = timer.next;
                return;
            }
    };
    // Runs one timer that is due and gives 0; else the date of the next one, or -1.
    const tick = () => {
        if (first === null) return -1;
        const now = host(NOW), timer = first;
        if (timer.due > now) return timer.due;
        first = timer.next;
        if (timer.every > 0) { timer.due = now + timer.every; insert(timer); }
        apply(timer.callback, undefined, timer.args);
        return 0;
    };
    put(global, 'setTimeout', function setTimeout(callback, ms, ...args) { return addTimer('setTimeout', callback, ms, args, false); });
    put(global, 'setInterval', function setInterval(callback, ms, ...args) { return addTimer('setInterval', callback, ms, args, true); });
    put(global, 'setImmediate', function setImmediate(callback, ...args) { return addTimer('setImmediate', callback, 1, args, false); });
    put(global, 'clearTimeout', function clearTimeout(id) { clear(id); });
    put(global, 'clearInterval', function clearInterval(id) { clear(id); });
    put(global, 'clearImmediate', function clearImmediate(id) { clear(id); });

    // ---- Bridges: calls out, each a promise that the host settles. ----
    const pending = { __proto__: null };
    let nextCall = 1;
    const begin = (name, args, site, handle) => new PromiseOf((resolve, reject) => {
        const json = stringify(args);
        const id = nextCall++;
        if (handle !== undefined) handle.cancel = () => cancel(id);
        pending[id] = { __proto__: null, resolve, reject, site };
        const refused = host(BRIDGE, id, name, json === undefined ? 'null' : json);
        if (refused !== undefined) {
            delete pending[id];
            reject(new TypeErrorOf(refused));
        }
    });
    // Nobody waits for the answer any more: the promise stays as it is.
    const cancel = (id) => {
        if (pending[id] === undefined) return;
        delete pending[id];
        host(CANCEL, id);
    };
    // Failures arrive later, when the frames of the script that called are gone. A `handle` gets a
    // function to cancel the call with.
    const bridge = (name, args, handle) => begin(name, args, new ErrorOf(), handle);
    const settle = (id, ok, text) => {
        const call = pending[id];
        if (call === undefined) return;
        delete pending[id];
        if (ok) call.resolve(text === '' ? undefined : parse(text));
        else {
            const failure = parse(text);
            const error = failure.name === 'TypeError' ? new TypeErrorOf(failure.message) : new ErrorOf(failure.message);
            if (failure.name !== 'TypeError' && failure.name !== 'Error') put(error, 'name', failure.name);
            if (failure.code !== undefined) put(error, 'code', failure.code);
            put(error, 'stack', call.site.stack);
            call.reject(error);
        }
    };
    // In a copy of an isolate the calls that were under way belong to the original.
    const abandon = (reason) => {
        for (const id in pending) {
            const call = pending[id];
            delete pending[id];
            call.reject(new ErrorOf(reason));
        }
    };
    const setBridges = (names) => {
        const api = {};
        for (let i = 0; i < names.length; i++) {
            const name = names[i];
            put(api, name, { [name](...args) { return bridge(name, args); } }[name]);
        }
        put(global, 'api', api);
    };

    // ---- console: the host formats; this keeps the counts and the indentation. ----
    let indent = 0;
    const counts = { __proto__: null }, clocks = { __proto__: null };
    const label = (value) => value === undefined ? 'default' : StringOf(value);
    const out = (...args) => { host(LOG, 0, indent, args); };
    const err = (...args) => { host(LOG, 1, indent, args); };
    const lapse = (name) => {
        const ms = host(ELAPSED) - clocks[name];
        return ms >= 1000 ? apply(fixed, ms / 1000, [3]) + 's' : +apply(fixed, ms, [3]) + 'ms';
    };
    const fixed = method(Number.prototype, 'toFixed');
    const console = {
        log(...args) { host(LOG, 0, indent, args); },
        info(...args) { host(LOG, 0, indent, args); },
        debug(...args) { host(LOG, 0, indent, args); },
        warn(...args) { host(LOG, 1, indent, args); },
        error(...args) { host(LOG, 1, indent, args); },
        trace(...args) {
            const error = new ErrorOf(args.length > 0 ? host(INSPECT, args, 1) : '');
            put(error, 'name', 'Trace');
            err(error);
        },
        dir(value, options) { out(host(INSPECT, [value], 2, options === undefined || options === null ? 2 : options.depth === null ? 100 : +options.depth)); },
        dirxml(...args) { host(LOG, 0, indent, args); },
        assert(condition, ...args) {
            if (condition) return;
            if (typeof args[0] === 'string') { define(args, 0, { __proto__: null, value: 'Assertion failed: ' + args[0], writable: true, configurable: true, enumerable: true }); host(LOG, 1, indent, args); }
            else if (args.length === 0) err('Assertion failed');
            else err('Assertion failed: ' + host(INSPECT, args, 1));
        },
        count(name) { name = label(name); counts[name] = (counts[name] || 0) + 1; out(name + ': ' + counts[name]); },
        countReset(name) { counts[label(name)] = 0; },
        time(name) { clocks[label(name)] = host(ELAPSED); },
        timeLog(name, ...args) {
            name = label(name);
            if (clocks[name] === undefined) { err("Warning: No such label '" + name + "' for console.timeLog()"); return; }
            out(name + ': ' + lapse(name) + (args.length > 0 ? ' ' + host(INSPECT, args, 1) : ''));
        },
        timeEnd(name) {
            name = label(name);
            if (clocks[name] === undefined) { err("Warning: No such label '" + name + "' for console.timeEnd()"); return; }
            out(name + ': ' + lapse(name));
            delete clocks[name];
        },
        group(...args) { if (args.length > 0) host(LOG, 0, indent, args); indent += 2; },
        groupCollapsed(...args) { if (args.length > 0) host(LOG, 0, indent, args); indent += 2; },
        groupEnd() { if (indent >= 2) indent -= 2; },
        table(data, columns) { out(load('table')(data, columns, host)); },
    };
    put(global, 'console', console);

    // ---- Globals that few scripts use come as compiled pieces at their first use. ----
    const loaded = { __proto__: null };
    const load = (chunk) => loaded[chunk] || (loaded[chunk] = host(CHUNK, chunk)(host, bridge, load));
    const lazy = (chunk, names) => {
        for (let i = 0; i < names.length; i++) {
            const name = names[i];
            define(global, name, {
                __proto__: null, configurable: true, enumerable: false,
                get() { const value = load(chunk)[name]; put(global, name, value); return value; },
                set(value) { define(global, name, { __proto__: null, value, writable: true, configurable: true, enumerable: true }); },
            });
        }
    };
    lazy('encoding', ['TextEncoder', 'TextDecoder']);
    lazy('clone', ['structuredClone']);
    lazy('url', ['URL', 'URLSearchParams']);
    lazy('events', ['Event', 'EventTarget', 'AbortController', 'AbortSignal']);
    lazy('fetch', ['Headers', 'Request', 'Response', 'fetch']);
    lazy('crypto', ['crypto']);

    put(global, 'performance', { now() { return host(ELAPSED); }, get timeOrigin() { return host(NOW) - host(ELAPSED); } });
    const env = {};
    put(global, 'process', { env });
    const setEnv = (json) => {
        const given = parse(json);
        for (const name in given) define(env, name, { __proto__: null, value: given[name], writable: true, configurable: true, enumerable: true });
    };

    // ---- Looking into values for the console and the result, past anything a script replaced. ----
    const mapEach = method(Map.prototype, 'forEach'), setEach = method(Set.prototype, 'forEach');
    const mapSize = getter(Map.prototype, 'size'), setSize = getter(Set.prototype, 'size');
    const toISO = method(Date.prototype, 'toISOString'), toTime = method(Date.prototype, 'getTime');
    const source = getter(RegExp.prototype, 'source'), flags = getter(RegExp.prototype, 'flags');
    const functionText = method(Function.prototype, 'toString'), slice = method(String.prototype, 'slice');
    const boxes = { __proto__: null, Number: method(Number.prototype, 'valueOf'), String: method(String.prototype, 'valueOf'),
        Boolean: method(Boolean.prototype, 'valueOf'), BigInt: method(BigInt.prototype, 'valueOf'), Symbol: method(Symbol.prototype, 'valueOf') };
    const tagKey = Symbol.toStringTag, customKey = Symbol.for('nodejs.util.inspect.custom'), iteratorKey = Symbol.iterator;
    const keyFor = Object.prototype.propertyIsEnumerable;
    const stop = { __proto__: null };
    const flat = (each, value, max, pairs) => {
        const list = { __proto__: null, length: 0, more: 0 };
        let seen = 0;
        apply(each, value, [(item, key) => {
            if (seen++ >= max) return;
            if (pairs) list[list.length++] = key;
            list[list.length++] = item;
        }]);
        list.more = seen > max ? seen - max : 0;
        return list;
    };
    const peek = (what, value, max) => {
        switch (what) {
        case 'map': return flat(mapEach, value, max, true);
        case 'set': return flat(setEach, value, max, false);
        case 'size': return max ? apply(mapSize, value, []) : apply(setSize, value, []);
        case 'date': { const time = apply(toTime, value, []); return time === time ? apply(toISO, value, []) : 'Invalid Date'; }
        case 'regexp': return '/' + apply(source, value, []) + '/' + apply(flags, value, []);
        case 'class': return apply(slice, apply(functionText, value, []), [0, 5]) === 'class';
        case 'source': return apply(slice, apply(functionText, value, []), [0, 16]);
        case 'box':
            for (const type in boxes) {
                try { return { __proto__: null, type, value: apply(boxes[type], value, []) }; } catch { }
            }
            return stop;
        case 'tag': { const tag = value[tagKey]; return typeof tag === 'string' && !apply(keyFor, value, [tagKey]) ? tag : ''; }
        case 'custom': return typeof value[customKey] === 'function' ? value[customKey](2, { depth: 2 }, (inner) => host(INSPECT, [inner], 2, 2)) : stop;
        case 'iterable': return value[iteratorKey] !== undefined;
        case 'string': return StringOf(value);
        case 'number': return typeof value === 'bigint' ? value : typeof value === 'symbol' ? NaN : +value;
        case 'integer': return typeof value === 'bigint' ? value : typeof value === 'symbol' ? NaN : parseIntOf(value);
        case 'float': return typeof value === 'symbol' ? NaN : parseFloatOf(value);
        case 'json': { try { return StringOf(stringify(value)); } catch { return '[Circular]'; } }
        }
    };
    const parseIntOf = parseInt, parseFloatOf = parseFloat;

    // Names that code with a top-level return declared in its function become global: `look`
    // evaluates in there. What the functions of that code do to a name is seen, and the other way.
    const keep = (look, names) => {
        for (let i = 0; i < names.length; i++) {
            const name = names[i];
            const found = look('({ get: () => ' + name + ', set: (value) => { ' + name + ' = value } })');
            define(global, name, { __proto__: null, get: found.get, set: found.set, configurable: true, enumerable: true });
        }
    };
    return { __proto__: null, tick, settle, abandon, setBridges, setEnv, peek, stop, keep };
})
