use super::*;

fn hold(library: &str, process: usize, acquired: i64, last: i64) -> Operation {
    Operation {
        id: process as u64,
        library: library.to_owned(),
        process,
        lock: LockKind::Mutex,
        paths: vec!["/locks/a".to_owned()],
        permits: 1,
        asked: 0,
        acquired: Some(acquired),
        tokens: Vec::new(),
        last: Some(last),
        reentered: None,
        lost: None,
        ended: Some(last + 1),
        error: None,
    }
}

#[test]
fn a_fault_that_is_being_made_may_end_a_hold() {
    let fault = Fault { site: Site::Zookeeper, harm: Harm::Killed };
    let mut record = RoundRecord {
        schema: SCHEMA.to_owned(),
        seed: weather::written(1),
        libraries: vec!["curator".to_owned(), "curator".to_owned()],
        versions: BTreeMap::new(),
        faults: vec![FaultRecord { fault, process: 0, server: None, sent: 15, begun: 40, ended: 50, failed: None }],
        unserved: Vec::new(),
        left: Vec::new(),
        sessions_replaced: 0,
        nonsense: Vec::new(),
        found: Vec::new(),
        history: History {
            rules: [("/locks/a".to_owned(), Rule::Exclusive)].into(),
            operations: vec![hold("curator", 0, 10, 30), hold("curator", 1, 20, 25)],
            deletions: Vec::new(),
        },
    };
    let counts = |record: &RoundRecord| (record.findings().broken.len(), record.findings().hazards.len());
    assert_eq!(counts(&record), (0, 1));
    record.faults[0].sent = 35;
    assert_eq!(counts(&record), (1, 0), "the hold was over before the fault was made");
}
