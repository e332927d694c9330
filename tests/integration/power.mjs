// A disk that forgets: from what record.c wrote down, the directory as a power cut may leave it.
//
// Bytes are safe once their file was synced, names once their directory was, and nothing else is: no
// favour that a file system does beyond that is counted on. What is not safe may be there or not, each
// piece by itself, and a write may be torn between sectors.
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const SECTOR = 512;

// File systems in files are written to by the kernel, which no log shows: they are left out.
const isImage = (path) => /^\/?(disks\/.*\.img|cache\/.*)$/.test(path);

// A sequence of numbers from 0 to 1 that a seed gives again.
export function dice(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13; state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5; state >>>= 0;
    return state / 2 ** 32;
  };
}

export function* records(log, end = log.length) {
  for (let at = 0; at < end;) {
    const line = log.indexOf(10, at);
    if (line < 0) return;
    const [op, ino, offset, len, first, second] = log.toString('latin1', at, line).split(' ');
    let next = line + 1;
    const take = (n) => { next += n; return log.subarray(next - n, next); };
    const path = take(Number(first)).toString(), other = take(Number(second)).toString(), bytes = take(Number(len));
    if (next > end) return; // not whole: it had not happened
    yield { op, ino: Number(ino), offset: Number(offset), path, other, bytes };
    at = next;
  }
}

function applied(content, change) {
  if (change.op === 'size') {
    const sized = Buffer.alloc(change.offset);
    content.copy(sized, 0, 0, Math.min(content.length, change.offset));
    return sized;
  }
  const all = Buffer.alloc(Math.max(content.length, change.offset + change.bytes.length));
  content.copy(all);
  change.bytes.copy(all, change.offset);
  return all;
}

const newFile = () => ({ safe: Buffer.alloc(0), changes: [] });
const newDir = () => ({ names: new Map(), safe: new Map(), moves: [] });

export class Disk {
  constructor() {
    this.top = newDir();
    this.inodes = new Map(); // of files, by number
  }

  // A disk on which everything is safe.
  static load(dir) {
    const disk = new Disk();
    const walk = (path, into) => {
      for (const entry of readdirSync(path, { withFileTypes: true })) {
        const at = join(path, entry.name);
        let node = null;
        if (isImage(at.slice(dir.length))) continue;
        if (entry.isDirectory()) walk(at, node = newDir());
        else if (entry.isFile()) {
          node = { safe: readFileSync(at), changes: [] };
          disk.inodes.set(statSync(at).ino, node);
        } else continue;
        into.names.set(entry.name, node);
        into.safe.set(entry.name, node);
      }
    };
    walk(dir, disk.top);
    return disk;
  }

  dir(path) {
    let node = this.top;
    for (const name of path.split('/').filter(Boolean)) node = node?.names?.get(name);
    return node?.names ? node : null;
  }

  // The directory that holds the path, and its last name.
  place(path) {
    return [this.dir(dirname(path)), path.slice(path.lastIndexOf('/') + 1)];
  }

  move(changes) {
    const step = { changes };
    for (const [dir, name, node] of changes) {
      if (node) dir.names.set(name, node);
      else dir.names.delete(name);
      dir.moves.push(step);
    }
  }

  play({ op, ino, offset, path, other, bytes }) {
    const [dir, name] = this.place(path);
    if (op === 'name' && isImage(path)) {
      this.inodes.delete(ino);
    } else if (op === 'name') {
      const there = dir?.names.get(name);
      if (dir && (!there || there !== this.inodes.get(ino))) {
        const node = newFile(); // a number may be that of one that has gone
        this.inodes.set(ino, node);
        this.move([[dir, name, node]]);
      }
    } else if (op === 'mkdir') {
      if (dir) this.move([[dir, name, newDir()]]);
    } else if (op === 'unlink') {
      if (dir) this.move([[dir, name, null]]);
    } else if (op === 'rename') {
      const [to, toName] = this.place(other);
      const node = dir?.names.get(name);
      if (node && to) this.move([[to, toName, node], [dir, name, null]]);
    } else if (op === 'link') {
      const [to, toName] = this.place(other);
      const node = dir?.names.get(name);
      if (node && to) this.move([[to, toName, node]]);
    } else if (op === 'write' || op === 'size') {
      this.inodes.get(ino)?.changes.push({ op, offset, bytes });
    } else if (op === 'syncfs') {
      this.syncAll(this.top);
    } else if (op === 'sync') {
      const at = path === '' ? this.top : this.dir(path);
      if (at) this.syncDir(at);
      else if (this.inodes.has(ino)) this.syncFile(this.inodes.get(ino));
    }
  }

  syncFile(file) {
    file.safe = file.changes.reduce(applied, file.safe);
    file.changes = [];
  }

  // A rename between two directories is safe on both sides or on none.
  syncDir(dir) {
    for (const step of dir.moves.splice(0)) {
      for (const [at, name, node] of step.changes) {
        if (node) at.safe.set(name, node);
        else at.safe.delete(name);
        if (at !== dir) at.moves = at.moves.filter((each) => each !== step);
      }
    }
  }

  syncAll(dir) {
    this.syncDir(dir);
    for (const node of dir.names.values()) {
      if (node.names) this.syncAll(node);
      else this.syncFile(node);
    }
  }

  // What the cut leaves. `keep` says of each piece that was not safe whether it is still there.
  write(to, keep) {
    const seen = new Set();
    const settle = (dir) => {
      for (const step of dir.moves) {
        if (seen.has(step)) continue;
        seen.add(step);
        if (keep() < 0.5) continue;
        for (const [at, name, node] of step.changes) {
          if (node) at.safe.set(name, node);
          else at.safe.delete(name);
        }
      }
      for (const node of new Set([...dir.names.values(), ...dir.safe.values()])) if (node.names) settle(node);
    };
    const contents = (file) => {
      let content = file.safe;
      for (const change of file.changes) {
        const luck = keep();
        if (luck < 0.5) continue;
        const sectors = Math.floor(change.bytes.length / SECTOR);
        const whole = change.op === 'size' || luck < 0.9 || sectors === 0;
        content = applied(content, whole ? change
          : { ...change, bytes: change.bytes.subarray(0, Math.floor(keep() * sectors) * SECTOR) });
      }
      return content;
    };
    const put = (dir, path) => {
      mkdirSync(path, { recursive: true, mode: 0o700 });
      for (const [name, node] of dir.safe) {
        if (node.names) put(node, join(path, name));
        else writeFileSync(join(path, name), contents(node), { mode: 0o600 });
      }
    };
    settle(this.top);
    put(this.top, to);
  }
}

// The first `end` bytes of the log have happened when the power goes.
export function cut(log, end, to, keep, disk = new Disk()) {
  for (const record of records(log, end)) disk.play(record);
  disk.write(to, keep);
}
