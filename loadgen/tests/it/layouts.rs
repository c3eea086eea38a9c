//! The audit finds rows of units and buckets that disagree with the orders or with the ledger.

use serde_json::Value;

use crate::broken::Broken;

impl Broken {
    /// Expects a sale by that strategy to be right and checked in full, as long as nothing is broken. It is the second of its SKU.
    pub(crate) fn assert_kept(&self, strategy: &str) {
        let (code, report) = self.compare(strategy);
        assert!([Some(0), Some(4)].contains(&code), "an honest service: {report:#}");
        let audit = &report["trials"][0]["audit"];
        assert_eq!((&audit["misplaced"], &audit["out_of_sequence"]), (&0.into(), &Value::Null), "{audit:#}");
        let audited = self.audit(&[]);
        assert_eq!(audited.code, Some(0), "{}", audited.stdout);
    }

    /// Breaks the rows of a sale that is over or on, and expects the audit of all sales to say this.
    pub(crate) fn assert_audit_tells(&self, breakage: &'static str, expected: &str) {
        self.execute(breakage);
        let audited = self.audit(&[]);
        assert_eq!(audited.code, Some(2), "{breakage}: {}", audited.stdout);
        assert!(audited.stdout.contains(expected), "{breakage}: {}", audited.stdout);
    }
}

// C51
#[test]
fn units_in_wrong_rows_are_found_out() {
    let broken = Broken::start();
    broken.assert_kept("pg-units");
    broken.execute(
        "create function another_order() returns trigger language plpgsql as $$ begin
             new.order_id := new.order_id + 1000; return new;
         end $$;
         create trigger another_order before update on units for each row execute function another_order();",
    );
    broken.assert_found_of("pg-units", "six units of strangers, and six orders without a unit", |trial| {
        (&trial["audit"]["misplaced"], &trial["audit"]["lost_updates"]) == (&12.into(), &0.into())
    });
    let audited = broken.audit(&[]);
    assert!(
        audited.stdout.contains("sale 3 of SKU 1: 6 units are taken by no order of the sale"),
        "{}",
        audited.stdout
    );
    let told = "sale 3 of SKU 1: 6 orders together have 6 units too many or too few";
    assert!(audited.stdout.contains(told), "{}", audited.stdout);

    broken.execute(
        "drop trigger another_order on units;
         create function one_less() returns trigger language plpgsql as $$ begin
             delete from units where goods_no = new.goods_no and sale = new.sale and unit = 6; return null;
         end $$;
         create trigger one_less after insert on order_lines for each row execute function one_less();",
    );
    broken.assert_found_of("pg-units", "a unit without a row, which nobody got", |trial| {
        (&trial["audit"]["misplaced"], &trial["audit"]["undersold"]) == (&1.into(), &1.into())
    });
    broken.assert_audit_tells("select", "sale 4 of SKU 1: 5 units have a row, and the sale began with 6");
    let told = "sale 2 of SKU 1: 1 unit is both free and taken";
    broken.assert_audit_tells("insert into units (goods_no, sale, unit) values (1, 2, 1)", told);
    let told = "sale 2 of SKU 1: 2 units are free, and the sale left 0";
    broken.assert_audit_tells("insert into units (goods_no, sale, unit) values (1, 2, 7)", told);
    broken.stop();
}

// C51
#[test]
fn units_in_wrong_buckets_are_found_out() {
    let broken = Broken::start();
    broken.assert_kept("pg-buckets");
    broken.execute(
        "create function one_more() returns trigger language plpgsql as $$ begin
             if new.bucket = 1 then new.stock_initial := new.stock_initial + 1; end if; return new;
         end $$;
         create trigger one_more before insert on buckets for each row execute function one_more();",
    );
    broken.assert_found_of("pg-buckets", "a unit with which the sale did not begin", |trial| {
        (&trial["audit"]["misplaced"], &trial["audit"]["lost_updates"]) == (&1.into(), &0.into())
    });
    broken.assert_audit_tells("select", "sale 3 of SKU 1: the buckets began with 7 units, and the sale with 6");
    let told = "sale 2 of SKU 1: the buckets have 1 unit, and the sale left 0";
    broken.assert_audit_tells("update buckets set on_hand = 1 where (goods_no, sale, bucket) = (1, 2, 1)", told);
    let told = "sale 2 of SKU 1: 1 bucket has less than no unit, or more than at the beginning";
    broken.assert_audit_tells(
        "alter table buckets drop constraint buckets_on_hand_check;
         update buckets set on_hand = -1 where (goods_no, sale, bucket) = (1, 2, 1)",
        told,
    );
    broken.stop();
}
