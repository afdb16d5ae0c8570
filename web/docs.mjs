// The pages of docs/ as HTML, for /ui/docs/ of each replica: an operator with a problem at night reads there
// what a warning means, without another host. Headings have the anchors that they have on GitHub; what
// is linked beyond docs/ is not there, so it is only named.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Marked } from 'marked';

const docsDirectory = join(dirname(fileURLToPath(import.meta.url)), '../docs');

const ENTITIES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

function escaped(text) {
  return text.replace(/[&<>"']/g, (one) => ENTITIES[one]);
}

/** As GitHub makes them, so that links into a page work here and there. */
function anchorOf(text, known) {
  const plain = text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');
  const count = known.get(plain) ?? 0;
  known.set(plain, count + 1);
  return count === 0 ? plain : `${plain}-${count}`;
}

function pages() {
  return readdirSync(docsDirectory, { recursive: true })
    .filter((name) => name.endsWith('.md'))
    .sort();
}

/** The URL of what `source` links to; undefined: it is no page of docs/. */
function targetOf(source, href, known) {
  if (/^https?:/.test(href) || href.startsWith('#')) {
    return href;
  }
  const [path, anchor] = href.split('#');
  const target = posix.normalize(posix.join(posix.dirname(source), path));
  const page = known.has(posix.join(target, 'README.md'))
    ? posix.join(target, 'README.md')
    : target;
  if (!known.has(page)) {
    return undefined;
  }
  return `/ui/docs/${page.replace(/\.md$/, '.html')}${anchor ? `#${anchor}` : ''}`;
}

function rendererOf(source, known) {
  const anchors = new Map();
  return {
    heading({ tokens, depth, text }) {
      const id = anchorOf(text.replace(/[`*]|\]\([^)]*\)/g, ''), anchors);
      return `<h${depth} id="${escaped(id)}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
    },
    link({ href, tokens }) {
      const inside = this.parser.parseInline(tokens);
      const target = targetOf(source, href, known);
      return target === undefined ? inside : `<a href="${escaped(target)}">${inside}</a>`;
    },
    image({ text }) {
      return escaped(text);
    },
    html({ text }) {
      return escaped(text);
    },
    table({ header, rows }) {
      const cells = (row, tag) =>
        row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join('');
      const body = rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('\n');
      return `<div class="table" tabindex="0" role="region" aria-label="table"><table><thead><tr>${cells(header, 'th')}</tr></thead>\n<tbody>${body}</tbody></table></div>\n`;
    },
    code({ text }) {
      return `<pre tabindex="0"><code>${escaped(text)}</code></pre>\n`;
    },
  };
}

/** One page. `head`: what stands in its <head> beside the title. */
function pageOf(source, markdown, known, head) {
  const marked = new Marked({ renderer: rendererOf(source, known) });
  const title = /^# (.*)$/m.exec(markdown)?.[1] ?? source;
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>${escaped(title)} · zabra</title>
${head}
  </head>
  <body class="docs">
    <header>
      <a href="/ui/">Dashboard</a>
      <a href="/ui/docs/README.html">Documentation</a>
    </header>
    <main>
${marked.parse(markdown)}
    </main>
  </body>
</html>
`;
}

/** All pages: paths below /ui and bytes. */
export function renderDocs(head) {
  const sources = pages();
  const known = new Set(sources);
  return sources.map((source) => {
    const markdown = readFileSync(join(docsDirectory, source), 'utf8');
    return {
      path: `docs/${source.replace(/\.md$/, '.html')}`,
      bytes: Buffer.from(pageOf(source, markdown, known, head)),
    };
  });
}
