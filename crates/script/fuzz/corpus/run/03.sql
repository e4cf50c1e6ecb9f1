select $$a;b$$, $q$c;$$;$q$, 'it''s';
select 3