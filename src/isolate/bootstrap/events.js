// Event, EventTarget, AbortController, AbortSignal.
(function () {
    'use strict';
    class Event {
        #stopped = false; #prevented = false; #target = null;
        constructor(type, options = {}) {
            this.type = String(type);
            this.cancelable = !!options.cancelable;
            this.bubbles = !!options.bubbles;
            this.timeStamp = performance.now();
        }
        get target() { return this.#target; }
        get currentTarget() { return this.#target; }
        get defaultPrevented() { return this.#prevented; }
        preventDefault() { if (this.cancelable) this.#prevented = true; }
        stopPropagation() { }
        stopImmediatePropagation() { this.#stopped = true; }
        static send(event, target, listeners) {
            event.#target = target;
            for (const listener of [...listeners]) {
                if (event.#stopped) break;
                if (listener.once) listeners.splice(listeners.indexOf(listener), 1);
                const callback = listener.callback;
                if (typeof callback === 'function') callback.call(target, event); else callback.handleEvent(event);
            }
            return !event.#prevented;
        }
    }
    const { send } = Event;
    delete Event.send;
    class EventTarget {
        #listeners = new Map();
        addEventListener(type, callback, options = {}) {
            if (callback === null || callback === undefined) return;
            const list = this.#listeners.get(type) ?? [];
            if (list.some((listener) => listener.callback === callback)) return;
            list.push({ callback, once: typeof options === 'object' && !!options.once });
            this.#listeners.set(type, list);
            if (typeof options === 'object' && options.signal) options.signal.addEventListener('abort', () => this.removeEventListener(type, callback), { once: true });
        }
        removeEventListener(type, callback) {
            const list = this.#listeners.get(type) ?? [];
            const at = list.findIndex((listener) => listener.callback === callback);
            if (at >= 0) list.splice(at, 1);
        }
        dispatchEvent(event) {
            const handler = this[`on${event.type}`];
            if (typeof handler === 'function') handler.call(this, event);
            return send(event, this, this.#listeners.get(event.type) ?? []);
        }
    }
    let making = false;
    class AbortSignal extends EventTarget {
        #aborted = false; #reason;
        onabort = null;
        constructor() {
            if (!making) throw new TypeError('Illegal constructor');
            super();
        }
        get aborted() { return this.#aborted; }
        get reason() { return this.#reason; }
        throwIfAborted() { if (this.#aborted) throw this.#reason; }
        static trip(signal, reason) {
            if (signal.#aborted) return;
            signal.#aborted = true;
            signal.#reason = reason === undefined ? new DOMException('This operation was aborted', 'AbortError') : reason;
            signal.dispatchEvent(new Event('abort'));
        }
        static abort(reason) { const signal = make(); trip(signal, reason); return signal; }
        static timeout(ms) {
            const signal = make();
            setTimeout(() => trip(signal, new DOMException('The operation was aborted due to timeout', 'TimeoutError')), ms);
            return signal;
        }
        static any(signals) {
            const joined = make();
            for (const signal of signals) {
                if (signal.aborted) { trip(joined, signal.reason); break; }
                signal.addEventListener('abort', () => trip(joined, signal.reason), { once: true });
            }
            return joined;
        }
    }
    const { trip } = AbortSignal;
    delete AbortSignal.trip;
    const make = () => { making = true; try { return new AbortSignal(); } finally { making = false; } };
    class AbortController {
        #signal = make();
        get signal() { return this.#signal; }
        abort(reason) { trip(this.#signal, reason); }
    }
    for (const [type, name] of [[Event, 'Event'], [EventTarget, 'EventTarget'], [AbortSignal, 'AbortSignal'], [AbortController, 'AbortController']])
        Object.defineProperty(type.prototype, Symbol.toStringTag, { value: name, configurable: true });
    return { Event, EventTarget, AbortSignal, AbortController };
})
