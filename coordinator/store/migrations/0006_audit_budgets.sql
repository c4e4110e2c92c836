-- Refusals and changes have budgets of their own: the oldest of each are found by these.
CREATE INDEX audit_refusals ON audit (seq) WHERE result <> 'OK';
CREATE INDEX audit_changes ON audit (seq) WHERE result = 'OK';
