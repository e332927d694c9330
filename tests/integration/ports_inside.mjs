// A server for the inside of a sandbox: what applications do, and what hostile ones do.
import { createHash } from 'node:crypto';
import http from 'node:http';
import net from 'node:net';

const app = http.createServer((req, res) => {
  for (const side of [req, res]) side.on('error', () => {}); // clients leave in the middle
  const url = new URL(req.url, 'http://inside');
  if (url.pathname === '/echo') {
    res.writeHead(200, { 'x-early': 'yes' });
    req.pipe(res);
  } else if (url.pathname === '/sum') {
    const hash = createHash('sha256');
    let bytes = 0;
    req.on('data', (data) => { hash.update(data); bytes += data.length; });
    req.on('end', () => res.end(JSON.stringify({ bytes, sum: hash.digest('hex'), te: req.headers['transfer-encoding'] })));
  } else if (url.pathname === '/big') {
    let left = Number(url.searchParams.get('bytes'));
    const more = () => {
      while (left > 0) {
        const piece = Buffer.alloc(Math.min(left, 65536), 'x');
        left -= piece.length;
        if (!res.write(piece)) { res.once('drain', more); return; }
      }
      res.end();
    };
    more();
  } else if (url.pathname === '/ticks') {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    let n = 0;
    const timer = setInterval(() => res.write(`data: ${n++}\n\n`), 20);
    req.on('close', () => { clearInterval(timer); console.log('closed'); });
  } else if (url.pathname === '/early') {
    res.writeHead(413, { 'content-length': 5 });
    res.end('large');
  } else if (url.pathname === '/go') {
    res.writeHead(302, { location: url.searchParams.get('to'), 'set-cookie': ['a=1; Domain=example.com; Path=/', 'b=2'] });
    res.end();
  } else if (url.pathname === '/hang') {
    console.log('hanging');
    req.on('close', () => console.log('hang closed'));
  } else if (url.pathname === '/none') {
    res.writeHead(204);
    res.end();
  } else {
    res.writeHead(200, { 'content-type': 'application/json', 'x-own': 'yes', 'keep-alive': 'timeout=9',
      'connection': 'x-secret', 'x-secret': '1', 'clear-site-data': '"*"' });
    res.end(JSON.stringify({ method: req.method, url: req.url, headers: req.headers }));
  }
});
app.on('upgrade', (req, socket, head) => {
  const accept = createHash('sha1').update(`${req.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64');
  socket.on('error', () => {});
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
    `Sec-WebSocket-Accept: ${accept}\r\n\r\nhello ${req.url};`);
  if (head.length) socket.write(head);
  socket.pipe(socket);
});
app.listen(8000, '127.0.0.1');

// Sends what the path contains in base64.
net.createServer((socket) => {
  socket.on('error', () => {});
  socket.once('data', (data) => {
    const path = /^\S+ \/(\S*) /.exec(data.toString('latin1'))[1];
    socket.end(Buffer.from(path, 'base64url'));
  });
}).listen(8001, '127.0.0.1');
http.createServer((req, res) => res.end(`six ${req.url}`)).listen(8002, '::1', () => console.log('ready'));
