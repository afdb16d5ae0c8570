// The outcomes of each command: shell lines with the exit code and the error that they must end
// with.
//
// The output of `z NAME`, which is `zabra NAME -o $O`, is checked; a plain `zabra` only prepares,
// and its output goes elsewhere. $P is the command's own znode with the children of FIXTURE; $D is
// a folder, $E that of the replicas.

/**
 * Each command has lines for each outcome, or a sentence that says why the outcome is impossible.
 */
export const OUTCOMES = ['success', 'not found', 'conflict', 'no permission', 'no ensemble'];

/** The default exit code and error of each outcome. */
export const USUAL = {
  success: { code: 0 },
  'not found': { code: 3, said: 'NoNode' },
  conflict: { code: 4 },
  'no permission': { code: 5, said: 'NoAuth' },
  'no ensemble': { code: 6, said: 'NoEnsemble' },
};

// bob:pw
const BOB = [{ perms: ['all'], scheme: 'digest', id: 'bob:ikIaKsbtGweaHnb/jKn7OHqbunM=' }];

/** Below $P. */
export const FIXTURE = [
  { path: '' },
  { path: '/here', dataUtf8: 'hello' },
  { path: '/here/kid', data64: '/w==' },
  { path: '/here/box', container: true },
  { path: '/num', dataUtf8: '5' },
  { path: '/closed', acl: BOB },
];

/** The lines of success again, with an endpoint where no replica listens. */
export const AGAIN = Symbol('again');

const ALL_SEE = 'every client may call it';
const READS = 'a read conflicts with nothing';
const MAKES = 'it creates missing znodes';
const NO_CALL = 'it calls no replica';
const HELD = { code: 124, said: 'WaitOver' };
const BEFORE_CHILD = { code: 125 };
const NOTHING = { schema: null };
const TEXT = { schema: null, text: true };
const SESSION =
  "S=$(zabra api POST '/sessions/v1/?op=create&expire=30' | sed 's/.*\"id\":\"\\([^\"]*\\).*/\\1/'); export ZABRA_SESSION=$S;";
const SUPER = 'umask 077; printf root >$D/root';
const NO_SESSION = 'ZABRA_SESSION=00000000-0000-4000-8000-000000000000; export ZABRA_SESSION;';

const UNTIL_READY =
  'p=$!; n=0; until zabra api GET /readyz --endpoints 127.0.0.1:$PORT --timeout 2s >/dev/null 2>&1; do n=$((n+1)); [ $n -lt 1000 ] || break; sleep 0.05; done;';

const callsNoReplica = {
  'not found': NO_CALL,
  conflict: NO_CALL,
  'no permission': NO_CALL,
  'no ensemble': NO_CALL,
};

/** Paths so long that messages are truncated, in the middle of a character or not. */
const LONG = ['', 'a'].map((more) => [
  `z get "/${more}$(printf '\\303\\251%.0s' $(seq 700))"`,
  { code: 3 },
]);

const data = {
  get: {
    success: ['z get $P/here', 'z get $P/here/kid', 'z get $P/here/box'],
    'not found': ['z get $P/nope', ...LONG],
    conflict: READS,
    'no permission': ['z get $P/closed'],
    'no ensemble': AGAIN,
    other: [[`z get "$(printf '/\\377')"`, { code: 2, said: 'Usage' }]],
  },
  set: {
    success: ['z set $P/here x', 'z set $P/fresh x --create', 'z set $P/here --null'],
    'not found': ['z set $P/nope x'],
    conflict: [
      ['z set $P/here x --version 77', { said: 'BadVersion' }],
      ['z set $P/here/box x --version 77', { said: 'BadVersion' }],
      'z set $P/here x --new',
    ],
    'no permission': ['z set $P/closed x'],
    'no ensemble': AGAIN,
  },
  create: {
    success: ['z create $P/new x', 'z create $P/new/job- -s', 'z create $P/new/box --container'],
    'not found': ['z create $P/nope/new'],
    conflict: [['z create $P/here', { said: 'NodeExists' }]],
    'no permission': ['z create $P/closed/new'],
    'no ensemble': AGAIN,
  },
  rm: {
    success: ['z rm $P/num', 'z rm -f $P/nope', 'z rm -ry $P/here'],
    'not found': ['z rm $P/nope'],
    conflict: [
      ['z rm $P', { said: 'NotEmpty' }],
      ['zabra create $P/x >&2; z rm $P/x --version 77', { said: 'BadVersion' }],
    ],
    'no permission': [
      'zabra create $P/shut >&2; zabra create $P/shut/x >&2; zabra acl $P/shut world:anyone:ra; z rm $P/shut/x',
    ],
    'no ensemble': AGAIN,
  },
  ls: {
    success: ['z ls $P', 'z ls -l $P/here', 'z ls -l $P/num', 'z ls $P -n 1'],
    'not found': ['z ls $P/nope'],
    conflict: READS,
    'no permission': ['z ls $P/closed'],
    'no ensemble': AGAIN,
  },
  tree: {
    success: ['z tree $P', 'z tree $P --data', 'z tree $P -L 1'],
    'not found': ['z tree $P/nope'],
    conflict: READS,
    'no permission': ['z tree $P/closed'],
    'no ensemble': AGAIN,
  },
  stat: {
    success: ['z stat $P/here', 'z stat $P/here/box'],
    'not found': ['z stat $P/nope'],
    conflict: READS,
    'no permission': ['z stat $P/closed'],
    'no ensemble': AGAIN,
  },
  cp: {
    success: ['z cp $P/num $P/num2', 'z cp -r $P/here $P/deep/there -p'],
    'not found': ['z cp $P/nope $P/x', 'z cp $P/num $P/nope/x'],
    conflict: [['z cp $P/num $P/here', { said: 'NodeExists' }]],
    'no permission': ['z cp $P/closed $P/x'],
    'no ensemble': AGAIN,
  },
  mv: {
    success: ['z mv $P/here $P/there'],
    'not found': ['z mv $P/nope $P/x'],
    conflict: [
      ['z mv $P/num $P/there', { said: 'NodeExists' }],
      [`${SESSION} zabra create -e $P/eph >&2; z mv $P/eph $P/x`, { said: 'Ephemeral' }],
    ],
    'no permission': ['z mv $P/closed $P/x'],
    'no ensemble': AGAIN,
  },
  edit: {
    success: ['z edit $P/here', 'z edit $P/num', 'z edit -c $P/fresh'],
    'not found': ['z edit $P/nope'],
    conflict: [
      ["EDITOR='zabra set $P/num theirs; echo mine >' z edit $P/num", { said: 'BadVersion' }],
    ],
    'no permission': ['z edit $P/closed'],
    'no ensemble': AGAIN,
    other: [['EDITOR=false z edit $P/num', { code: 1, said: 'Editor' }]],
  },
  find: {
    success: ['z find $P --name k', 'z find $P --data hello', 'z find $P --name none'],
    'not found': ['z find $P/nope --name k'],
    conflict: READS,
    'no permission': ['z find $P/closed --name k'],
    'no ensemble': AGAIN,
  },
  touch: {
    success: ['z touch $P/num', 'z touch $P/touched', 'z touch $P/here/box'],
    'not found': ['z touch -c $P/nope', 'z touch $P/nope/x'],
    conflict: 'it reads again when another client was quicker',
    'no permission': ['z touch $P/closed'],
    'no ensemble': AGAIN,
  },
  incr: {
    success: ['z incr $P/num', 'z incr $P/num 9223372036854775801', 'z incr $P/fresh -c'],
    'not found': ['z incr $P/nope'],
    conflict: 'it reads again when another client was quicker',
    'no permission': ['z incr $P/closed'],
    'no ensemble': AGAIN,
    other: [
      ['z incr $P/num 9223372036854775807', { code: 10, said: 'Overflow' }],
      ['z incr $P/here', { code: 1, said: 'NotANumber' }],
    ],
  },
  multi: {
    success: [
      'echo \'{"op":"create","path":"\'$P\'/m"} {"op":"set","path":"\'$P\'/num","dataUtf8":"6"}\' | tr " " "\\n" | z multi',
      'echo \'[{"op":"get","path":"\'$P\'/here/box"},{"op":"stat","path":"\'$P\'"},{"op":"children","path":"\'$P\'"},{"op":"exists","path":"/x"}]\' | z multi',
      'echo \'{"op":"create","path":"\'$P\'/long","dataJson":1234567890123456789}\' | z multi',
      [
        'echo \'{"op":"get","path":"\'$P\'/long","dataformat":"json"}\' | z multi',
        { shows: '"dataJson":1234567890123456789' },
      ],
    ],
    'not found': ['echo \'{"op":"set","path":"\'$P\'/nope","dataUtf8":"x"}\' | z multi'],
    conflict: [['echo \'{"op":"create","path":"\'$P\'/here"}\' | z multi', { said: 'NodeExists' }]],
    'no permission': ['echo \'{"op":"set","path":"\'$P\'/closed","dataUtf8":"x"}\' | z multi'],
    'no ensemble': AGAIN,
    other: [
      ['echo \'[{"op":"get","path":"/nope"}]\' | z multi', { code: 9, value: true }],
      ['echo 5 | z multi', { code: 2, said: 'BadArguments' }],
      ['z multi $D/nope', { code: 1, said: 'File' }],
    ],
  },
  export: {
    success: ['z export $P/here'],
    'not found': ['z export $P/nope'],
    conflict: READS,
    'no permission': ['z export $P/closed'],
    'no ensemble': AGAIN,
    other: [['z export $P', { code: 9, said: 'Unreadable' }]],
  },
  backup: {
    success: [
      `${SUPER}; z backup --user super --password-file $D/root $D/b-$O`,
      [
        'zabra backup --user super --password-file $D/root $D/b-$O >/dev/null; z inspect $D/b-$O',
        { schema: 'inspect.backup' },
      ],
    ],
    'not found': 'a backup has everything',
    conflict: READS,
    'no permission': ['z backup $D/none'],
    'no ensemble': [`${SUPER}; z backup --user super --password-file $D/root $D/none`],
    other: [['z backup --since-last $D/none', { code: 2, said: 'Usage' }]],
  },
  import: {
    success: [
      'echo \'{"path":"i","dataUtf8":"x"}\' | z import $P --dry-run',
      'echo \'{"path":"i","dataUtf8":"x"}\' | z import $P',
      'echo \'{"path":"i","dataUtf8":"y"}\' | z import $P --conflict skip',
    ],
    'not found': ['echo \'{"path":"i"}\' | z import $P/nope'],
    conflict: [['echo \'{"path":"here"}\' | z import $P', { said: 'NodeExists' }]],
    'no permission': ['echo \'{"path":"i"}\' | z import $P/closed'],
    'no ensemble': AGAIN,
    other: [
      [
        '(seq -f \'{"path":"n%.0f"}\' 1500; echo \'{"path":"here"}\') | z import $P',
        { code: 9, said: 'NodeExists' },
      ],
    ],
  },
};

const coordination = {
  watch: {
    success: [
      'z watch $P/here --since 0x1 --once',
      'z watch $P -r --values --since 0x1 --once',
      ['z watch $P/here --since 0x1 --once -- true', NOTHING],
    ],
    'not found': 'it waits for a missing znode',
    conflict: READS,
    'no permission': 'events of unreadable znodes are withheld',
    'no ensemble': [
      'z watch $P/here --timeout 50ms',
      ['z watch $P/here --timeout 50ms -- true', BEFORE_CHILD],
    ],
    other: [['z watch $P/here --since nonsense', { code: 2, said: 'BadArguments' }]],
  },
  lock: {
    success: ['z lock $P/l -- true'],
    'not found': MAKES,
    conflict: [['zabra lock $P/l -- zabra lock -o $O $P/l --try -- true', HELD]],
    'no permission': [['z lock $P/closed -- true', BEFORE_CHILD]],
    'no ensemble': [['z lock $P/l -- true', BEFORE_CHILD]],
    other: [
      ['z lock $P/l -- /no/such/command', { code: 127, said: 'CommandNotFound' }],
      ['z lock $P/l -- /etc/passwd', { code: 126, said: 'CommandNotRun' }],
      ['z lock $P/l', { code: 2, said: 'Usage' }],
      [
        'z lock $P/l --ttl 600ms -- sh -c \'zabra rm $ZABRA_LOCK_PATH; exec sleep 20\'',
        { code: 122, said: 'Lost' },
      ],
    ],
  },
  semaphore: {
    success: ['z semaphore $P/s -n 2 -- true'],
    'not found': MAKES,
    conflict: [['zabra semaphore $P/s -n 1 -- zabra semaphore -o $O $P/s -n 1 --try -- true', HELD]],
    'no permission': [['z semaphore $P/closed -n 2 -- true', BEFORE_CHILD]],
    'no ensemble': [['z semaphore $P/s -n 2 -- true', BEFORE_CHILD]],
  },
  elect: {
    success: [
      'z elect $P/e -- true',
      [
        'zabra elect $P/e --name me -- zabra elect -o $O $P/e --leader',
        { schema: 'elect.leader' },
      ],
    ],
    'not found': ['z elect $P/nope --leader', ['z elect $P/e --leader', { said: 'NoLeader' }]],
    conflict: [['zabra elect $P/e -- zabra elect -o $O $P/e --try -- true', HELD]],
    'no permission': ['z elect $P/closed --leader', ['z elect $P/closed -- true', BEFORE_CHILD]],
    'no ensemble': ['z elect $P/e --leader', ['z elect $P/e -- true', BEFORE_CHILD]],
  },
  barrier: {
    success: [
      'z barrier wait $P/b',
      'z barrier raise $P/b',
      'z barrier raise $P/b',
      'z barrier lower $P/b',
      'z barrier lower $P/b',
      ['z barrier enter $P/c me --count 1 -- true', NOTHING],
      `${SESSION} z barrier enter $P/c me --count 1`,
      'z barrier leave $P/c me',
    ],
    'not found': 'a missing barrier is lowered',
    conflict: 'raising a raised barrier succeeds',
    'no permission': ['z barrier raise $P/closed/b'],
    'no ensemble': ['z barrier wait $P/b', 'z barrier raise $P/b', 'z barrier lower $P/b'],
    other: [
      [
        'zabra barrier raise $P/w; z barrier wait $P/w --wait 50ms',
        { code: 7, said: 'WaitOver' },
      ],
      ['z barrier enter $P/d me --count 2 --wait 50ms -- true', HELD],
    ],
  },
  queue: {
    success: [
      ['z queue push $P/q one', { schema: 'queue.push' }],
      ['z queue peek $P/q', { schema: 'queue.peek' }],
      ['z queue len $P/q', { schema: 'queue.len' }],
      ['z queue pop $P/q --wait 10s', { schema: 'queue.pop', shows: '"dataUtf8":"one"' }],
    ],
    'not found': [
      ['z queue pop $P/q', { said: 'Empty' }],
      'z queue pop $P/nope',
      'z queue peek $P/nope',
      'z queue len $P/nope',
    ],
    conflict: 'a consumer that loses an item takes the next one',
    'no permission': ['z queue push $P/closed x', 'z queue pop $P/closed', 'z queue len $P/closed'],
    'no ensemble': AGAIN,
    other: [['z queue pop $P/q --wait 50ms', { code: 7, said: 'WaitOver' }]],
  },
  counter: {
    success: ['z counter add $P/c', 'z counter get $P/c', 'z counter set $P/c 9223372036854775807'],
    'not found': ['z counter get $P/nope'],
    conflict: 'it reads again when another client was quicker',
    'no permission': ['z counter get $P/closed', 'z counter add $P/closed', 'z counter set $P/closed 1'],
    'no ensemble': AGAIN,
    other: [
      ['z counter add $P/c', { code: 10, said: 'Overflow' }],
      ['z counter get $P/here', { code: 1, said: 'NotANumber' }],
    ],
  },
  session: {
    success: [
      'z session -- true',
      ['zabra session -- zabra session show -o $O', { schema: 'session.show' }],
      ['zabra session -- zabra session list -o $O', { schema: 'session.list' }],
      [`${SESSION} z session close`, { schema: 'session.close' }],
    ],
    'not found': [
      [`${NO_SESSION} z session show`, { code: 8, said: 'SessionExpired' }],
      [`${NO_SESSION} z session close`, { code: 0, schema: 'session.close' }],
    ],
    conflict: 'each command has its own session',
    'no permission': 'every client may open one',
    'no ensemble': [
      ['z session -- true', BEFORE_CHILD],
      `${NO_SESSION} z session show`,
      `${NO_SESSION} z session close`,
      'z session list',
    ],
    other: [['z session show', { code: 2, said: 'Usage' }]],
  },
};

const rights = {
  acl: {
    success: [
      'z acl $P/num',
      'z acl $P/closed --user bob --password-file $D/pw',
      ['z acl $P/num --add ip:10.0.0.0/8:r', { schema: 'acl.set' }],
      ['z acl $P/num world:anyone:cdrwa', { schema: 'acl.set' }],
      ['z acl $P/here/box open --version 0', { schema: 'acl.set' }],
      ['z acl -R $P/here open', { schema: 'acl.tree' }],
    ],
    'not found': ['z acl $P/nope', 'z acl $P/nope open', 'z acl $P/nope --add world:anyone:r'],
    conflict: [['z acl $P/num open --version 77', { said: 'BadVersion' }]],
    'no permission': ['z acl $P/closed', 'z acl $P/closed open'],
    'no ensemble': AGAIN,
    other: [
      ['z acl $P/num --remove ip:1.2.3.4', { code: 1, said: 'NoEntry' }],
      ['z acl $P/num auth::r', { code: 2, said: 'InvalidACL' }],
      [
        'z create $P/here/shut --acl creator --user bob --password-file $D/pw >/dev/null; ' +
          'z acl -R $P/here open',
        { code: 9, said: 'NoAuth' },
      ],
    ],
  },
  quota: {
    success: [
      'z quota $P/num --count 1 --soft-bytes 5',
      'z quota $P/num',
      'z quota',
      'z quota $P/num --clear',
    ],
    'not found': ['z quota $P/here', 'z quota $P/here --clear'],
    conflict: 'it reads again when another client was quicker',
    'no permission': [
      'zabra acl /zookeeper/quota world:anyone:ra; z quota $P/num --count 1; c=$?; zabra acl /zookeeper/quota open; exit $c',
    ],
    'no ensemble': AGAIN,
    other: [
      [
        'zabra quota $P/num --count 1; z create $P/num/over; c=$?; zabra quota $P/num --clear; exit $c',
        { code: 10, said: 'QuotaExceeded', erring: 'create' },
      ],
    ],
  },
  whoami: {
    success: ['z whoami', 'z whoami --user bob --password-file $D/pw', `${SESSION} z whoami`],
    'not found': 'each request has an identity',
    conflict: READS,
    'no permission': ALL_SEE,
    'no ensemble': ['z whoami'],
  },
  api: {
    success: [
      'z api GET /znodes/v1$P',
      'z api GET /livez --accept application/json',
      'z api PUT /znodes/v1$P/num 7',
      'z api DELETE /znodes/v1$P/here/kid',
    ],
    'not found': ['z api GET /znodes/v1$P/nope'],
    conflict: [['z api POST "/znodes/v1$P?op=create&name=num"', { said: 'NodeExists' }]],
    'no permission': ['z api GET /znodes/v1$P/closed'],
    'no ensemble': AGAIN,
    other: [['z api GET /nowhere', { code: 1, said: 'NotFound' }]],
  },
};

const SOME_DEAD = '--endpoints 127.0.0.1:1,$ZABRA_ENDPOINTS';

// A replica speaks ZooKeeper's protocol, too: here it is the source of its own ensemble.
const SOURCE = '--from ${ZABRA_ENDPOINTS%%,*} --no-counters';

const about = {
  migrate: {
    success: [
      `z migrate ${SOURCE} --prefix $P/here --into`,
      `z migrate ${SOURCE} --prefix $P/here --into --dry-run`,
    ],
    'not found': [`z migrate ${SOURCE} --prefix $P/none`],
    conflict: [`z migrate ${SOURCE} --prefix $P/here`],
    'no permission': ['z migrate --from ${ZABRA_ENDPOINTS%%,*} --prefix $P/here --into'],
    'no ensemble': [[`z migrate ${SOURCE}`, { said: 'Source' }]],
  },
  status: {
    success: ['z status', `z status ${SOME_DEAD}`],
    'not found': 'there is nothing to find',
    conflict: READS,
    'no permission': ALL_SEE,
    'no ensemble': ['z status'],
  },
  members: {
    success: ['z members'],
    'not found': 'a change of the members needs the super user: proc.test_cli_members',
    conflict: 'a change of the members needs the super user: proc.test_cli_members',
    'no permission': [
      'z members add 9 a:1',
      'z members promote 1',
      'z members move 1 a:1',
      'z members replace 1 9 a:1',
      'z members remove 1',
    ],
    'no ensemble': ['z members', 'z members add 9 a:1', 'z members remove 1'],
  },
  upgrade: {
    success: ['z upgrade', 'z upgrade status'],
    'not found': 'there is nothing to find',
    conflict: 'a change that the ensemble refuses needs the super user: proc.test_level',
    'no permission': ['z upgrade hold 1', 'z upgrade release', 'z upgrade raise 2 --force'],
    'no ensemble': ['z upgrade'],
  },
  metrics: {
    success: ['z metrics', 'z metrics --all zabra_serving'],
    'not found': [['z metrics nonsense', { code: 1, said: 'NoMetric' }]],
    conflict: READS,
    'no permission': ALL_SEE,
    'no ensemble': AGAIN,
  },
  support: {
    success: ['z support $D/support-$O', 'z support $D/support-$O-dead --endpoints 127.0.0.1:1'],
    'not found': 'a missing folder is made',
    conflict: 'each archive has a name of its own',
    'no permission': ALL_SEE,
    'no ensemble': 'it works without one, too',
  },
  top: {
    success: ['z top --once', `z top --once -n 1 ${SOME_DEAD}`],
    'not found': 'there is nothing to find',
    conflict: READS,
    'no permission': ALL_SEE,
    'no ensemble': ['z top --once'],
  },
  doctor: {
    success: [
      ['z doctor', { code: [0, 1], value: true }], // It may find a slow disk.
      [`z doctor ${SOME_DEAD}`, { code: 1, value: true }],
    ],
    'not found': 'there is nothing to find',
    conflict: READS,
    'no permission': ALL_SEE,
    'no ensemble': [['z doctor', { code: 1, value: true }]],
  },
  probe: {
    success: [
      'z probe ready --endpoints ${ZABRA_ENDPOINTS%%,*}',
      'z probe live --endpoints ${ZABRA_ENDPOINTS%%,*}',
    ],
    'not found': 'there is nothing to find',
    conflict: READS,
    'no permission': ALL_SEE,
    'no ensemble': [
      ['z probe ready --endpoints 127.0.0.1:1', { code: 1, said: 'NoEnsemble' }],
      ['ZABRA_CLIENT_PORT=1 z probe live', { code: 1, said: 'NoEnsemble' }],
      ['z probe live --config $D/nope', { code: 1, said: 'Usage' }],
    ],
  },
  bench: {
    success: [
      'z bench mix -c 2 -t 50ms --znodes 2',
      'z bench watch -c 2 -t 50ms --znodes 2',
    ],
    'not found': MAKES,
    conflict: 'its znodes have unique names',
    'no permission': [
      'zabra acl / world:anyone:ra; z bench -t 50ms; c=$?; zabra acl / open; exit $c',
    ],
    'no ensemble': AGAIN,
  },
};

const itself = {
  shell: {
    success: [
      ["printf 'get %s/here\\ncd %s\\nls\\n' $P $P | z shell", { schema: ['get', 'ls'] }],
      ["printf '' | z shell", NOTHING],
    ],
    'not found': [["printf 'get %s/nope\\n' $P | z shell", { erring: 'get' }]],
    conflict: [["printf 'create %s/here\\n' $P | z shell", { erring: 'create' }]],
    'no permission': [["printf 'get %s/closed\\n' $P | z shell", { erring: 'get' }]],
    'no ensemble': [["printf 'get %s/here\\n' $P | z shell", { erring: 'get' }]],
    other: [["printf 'nonsense\\n' | z shell", { code: 2, said: 'Usage' }]],
  },
  completion: { success: [['zabra completion bash', TEXT]], ...callsNoReplica },
  version: {
    success: ['z version', ['z version --verbose', { schema: 'version.verbose' }]],
    ...callsNoReplica,
  },
  help: {
    success: ['z help', 'z help get', 'z help exit-codes'],
    ...callsNoReplica,
    'not found': [['z help nonsense', { code: 2, said: 'Usage' }]],
  },
};

/** Commands about a separate replica, in this order. */
const replicas = {
  serve: {
    success: [
      [
        `mkdir $D/serve; zabra serve --id 1 --dataDir $D/serve --clientPort $PORT 2>/dev/null & ${UNTIL_READY} zabra create /x --endpoints 127.0.0.1:$PORT >&2; kill -TERM $p; wait $p`,
        { once: true },
      ],
    ],
    ...callsNoReplica,
  },
  inspect: {
    success: ['z inspect $D/serve'],
    ...callsNoReplica,
    'not found': [['z inspect $D/nope', { code: 1, said: 'Directory' }]],
    conflict: [['z inspect $E/1', { code: 1, said: 'Directory' }]],
    other: [
      [
        'rm -rf $D/bad; cp -r $D/serve $D/bad; for f in $D/bad/*; do printf xxxx | dd of="$f" bs=1 seek=4100 conv=notrunc 2>/dev/null; done; z inspect $D/bad',
        { code: 1, value: true },
      ],
      ['mkdir -p $D/empty; z inspect $D/empty', { code: 1, value: true }],
    ],
  },
  cert: {
    success: [
      'z cert ca --dir $D/tls-$O',
      'z cert server --dir $D/tls-$O --name a --san localhost,127.0.0.1',
      'z cert client --dir $D/tls-$O --name b --san b@localhost',
      'z cert peer --dir $D/tls-$O --id 3 --cluster c1',
      'z cert show --dir $D/tls-$O --name ca',
      ['z cert check --dir $D/tls-$O --name a --host 127.0.0.1', { schema: 'cert.check' }],
    ],
    ...callsNoReplica,
    'not found': [['z cert show $D/tls-$O/nope.pem', { code: 1, said: 'File' }]],
    conflict: [['z cert ca --dir $D/tls-$O', { code: 1, said: 'File' }]],
    other: [
      [
        'z cert check --dir $D/tls-$O --name a --for client',
        { code: 1, value: true, schema: 'cert.check' },
      ],
      ['z cert server --dir $D/tls-$O --name x --san "a b"', { code: 2, said: 'Usage' }],
    ],
  },
  recover: {
    success: [
      [
        "h=$(zabra recover $D/serve --id 1 </dev/null | sed -n 's/^history *//p'); zabra recover $D/serve --id 1 --yes-i-accept-data-loss=$h",
        { ...TEXT, once: true },
      ],
    ],
    ...callsNoReplica,
    other: [['zabra recover $D/nope --id 1', { ...TEXT, code: 1 }]],
  },
  restore: {
    success: [
      [
        'printf root >$D/root; chmod 600 $D/root; zabra backup --user super --password-file $D/root $D/full; zabra restore --from $D/full --dir $D/restored --id 1',
        { ...TEXT, once: true },
      ],
    ],
    ...callsNoReplica,
    other: [['zabra restore --from $D/nope --dir $D/restored2 --id 1', { ...TEXT, code: 1 }]],
  },
  dev: {
    success: [
      [
        `PORT=$OTHER_PORT; zabra dev --nodes 1 --data $D/dev --port $PORT >&2 & ${UNTIL_READY} kill -TERM $p; wait $p`,
        { once: true },
      ],
    ],
    ...callsNoReplica,
  },
};

/** By command and outcome: lines, each alone or with its exit code and error. */
export const CASES = {
  ...data,
  ...coordination,
  ...rights,
  ...about,
  ...itself,
  ...replicas,
};

/**
 * The commands of a group run in sequence; each begins with the state that the previous ones left.
 */
export const GROUPS = [
  ...[data, coordination, rights, about, itself].flatMap((table) =>
    Object.keys(table).map((command) => [command]),
  ),
  Object.keys(replicas),
];

/** Commands without -o, which report errors as text. */
export const WITHOUT_OUTPUT = ['serve', 'dev', 'recover', 'restore', 'completion'];
