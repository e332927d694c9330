// Loaded by every Node of a sandbox before its program (NODE_OPTIONS). Packages that were installed
// on demand or globally are found by each module that does not find its own: NODE_PATH does that for
// `require`, and only while nobody sets another one.

const module_ = require('node:module');
const { pathToFileURL } = require('node:url');

// A module there finds lib/node_modules (global) first, then node_modules (on demand).
const place = pathToFileURL('/workspace/.sandglass/node/lib/none.js').href;
const isPlain = (name) => /^(?:@[^/]+\/)?[^./:#][^:]*$/.test(name);

/** Where the package lies; undefined without one. */
function installed(name, context, next) {
  try {
    if (!context.conditions?.includes('require')) return next(name, { ...context, parentURL: place });
    return { url: pathToFileURL(module_.createRequire(place).resolve(name)).href, shortCircuit: true };
  } catch {
    return undefined;
  }
}

// Node before 22.15 has no such hooks: `require` finds them there.
module_.registerHooks?.({
  resolve(name, context, next) {
    if (!isPlain(name) || context.parentURL === place) return next(name, context);
    try {
      return next(name, context);
    } catch (error) {
      const found = /MODULE_NOT_FOUND$/.test(error.code) ? installed(name, context, next) : undefined;
      if (found === undefined) throw error;
      return found;
    }
  },
});
