create function pg_temp.f() returns int begin atomic select 1; select case when true then 2 end; end;
select 5;