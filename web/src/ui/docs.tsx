import { say } from './texts';

/** An anchor as docs.mjs makes it of a heading. */
function anchorOf(section: string): string {
  return section
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');
}

/** Where it is explained: a page of docs/, and its section. A tab of its own, so that nothing is lost
 * here, the password last of all. */
export function Docs({ page, section }: { page: string; section?: string | undefined }) {
  const anchor = section ? `#${anchorOf(section)}` : '';
  return (
    <span class="hint docs">
      {say('docs')}{' '}
      <a href={`/ui/docs/${page}.html${anchor}`} target="_blank" rel="noreferrer">
        {section ?? page}
      </a>
    </span>
  );
}
