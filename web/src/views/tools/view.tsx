// Searching, exporting and importing a subtree. The URL names its top, the tool, and what is searched.

import { navigate, route, urlOf } from '../../app/router';
import { Tabs } from '../../ui/tabs';
import { Export } from './export';
import { Import } from './import';
import { Search } from './search';
import { say } from './texts';

const TOOLS = ['search', 'export', 'import'] as const;

export default function Tools() {
  const { path, query } = route.value;
  const tool = TOOLS.find((one) => one === query.get('tool')) ?? 'search';
  return (
    <div class="page tools">
      <h1 class="sr-only">{say('title')}</h1>
      <section class="panel">
        <Tabs
          label={say('title')}
          selected={tool}
          onSelect={(name) => navigate(urlOf('tools', path, { tool: name }), true)}
          tabs={TOOLS.map((name) => ({ name, title: say(name) }))}
        >
          {tool === 'search' && <Search key={route.value.query.toString()} path={path} />}
          {tool === 'export' && <Export path={path} />}
          {tool === 'import' && <Import path={path} />}
        </Tabs>
      </section>
    </div>
  );
}
