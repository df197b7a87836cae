import { render } from 'preact';
import { connect } from './api';
import { onKey } from './keys';
import { page } from './route';
import { snapshot } from './store';
import { Token } from './ui/actions';
import { Message } from './ui/say';
import { Shell } from './ui/shell';
import { DecisionsPage } from './pages/decisions';
import { FailuresPage } from './pages/failures';
import { GraphPage } from './pages/graph';
import { PoliciesPage } from './pages/policies';
import { ProcessesPage } from './pages/processes';
import { StagePage } from './pages/stage';
import { TablePage } from './pages/table';
import { TapPage } from './pages/tap';
import { TreePage } from './pages/tree';
import './style.css';

const views: Record<string, () => preact.JSX.Element | null> = {
  graph: GraphPage,
  table: TablePage,
  failures: FailuresPage,
  stage: StagePage,
  decisions: DecisionsPage,
  processes: ProcessesPage,
  tree: TreePage,
  tap: TapPage,
  policies: PoliciesPage,
};

function App() {
  const View = views[page.value] ?? GraphPage;
  return (
    <>
      <Shell>{snapshot.value ? <View key={page.value} /> : <p class="empty">Waiting for the first snapshot…</p>}</Shell>
      <Message />
      <Token />
    </>
  );
}

addEventListener('keydown', onKey);
render(<App />, document.getElementById('app')!);
void connect();
